! What types say about memory accesses in Fortran: derived types, arrays with and without descriptors, arguments by
! reference. The marks are as in typed_accesses.c.
module bodies
  implicit none
  type :: particle
    real(8) :: position(3)
    real(8) :: mass
    integer :: kind
  end type
contains
  subroutine push(all, n, force)
    integer, intent(in) :: n
    type(particle), intent(inout) :: all(n)
    real(8), intent(in) :: force
    integer :: i
    do i = 1, n                                  !
      all(i)%mass = all(i)%mass + force          ! type: particle.mass real(kind=8)
      all(i)%kind = i                            ! type: particle.kind integer(kind=4)
    end do
  end subroutine

  function dot(a, b, n) result(total)
    integer, intent(in) :: n
    real(8), intent(in) :: a(n), b(n)
    real(8) :: total
    integer :: i
    total = 0
    do i = 1, n
      total = total + a(i) * b(i)                ! type: real(kind=8)
    end do
  end function

  subroutine scale(one)
    type(particle), intent(inout) :: one
    one%mass = one%mass * 2                      ! type: particle.mass
    one%position(2) = 1                          ! type: particle.position[]
  end subroutine

  subroutine fill(values)
    real(8), intent(inout) :: values(:)
    integer :: i
    do i = 1, size(values)                       !
      values(i) = i                              ! type: real(kind=8) real(kind=8)[]*
    end do
  end subroutine
end module

! end of marks
program typed_fortran
  use bodies
  implicit none
  type(particle) :: cloud(10)
  real(8), allocatable :: a(:), b(:)
  integer :: i
  allocate(a(100), b(100))
  do i = 1, 10
    cloud(i)%mass = i
  end do
  call push(cloud, 10, 0.5d0)
  call scale(cloud(3))
  call fill(a)
  b = 2
  print *, dot(a, b, 100) + sum(cloud%mass)
end program
