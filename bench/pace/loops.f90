! The same in Fortran: `loops KERNEL SECONDS`.
module kernels
  implicit none
  integer, parameter :: n = 8388608
  real(8), allocatable :: a(:), b(:), c(:)
  real(8) :: total = 0
contains
  subroutine triad()
    integer :: i
    do i = 1, n
      a(i) = b(i) + 3.0d0 * c(i)
    end do
  end subroutine
  subroutine sums()
    integer :: i
    do i = 1, n
      total = total + a(i) * b(i)
    end do
  end subroutine
end module
program loops
  use kernels
  implicit none
  character(32) :: name, text
  real(8) :: duration, begin, now
  integer(8) :: ticks, hz, iterations = 0
  call get_command_argument(1, name)
  call get_command_argument(2, text)
  read (text, *) duration
  allocate (a(n), b(n), c(n))
  a = 1; b = 2; c = 3
  call system_clock(ticks, hz)
  begin = real(ticks, 8) / hz
  call cpu_time(now)
  text = ''
  block
    real(8) :: cpu, wall
    cpu = now
    do
      call system_clock(ticks, hz)
      wall = real(ticks, 8) / hz - begin
      if (wall >= duration) exit
      if (name == 'triad') then
        call triad()
      else
        call sums()
      end if
      iterations = iterations + n
    end do
    call cpu_time(now)
    print '(a,i0)', 'iterations=', iterations
    print '(a,f0.9)', 'cpu=', now - cpu
  end block
  if (total == 0.12345d0) print *, total
end program
