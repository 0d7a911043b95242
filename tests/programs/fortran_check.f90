! A target of the corpus in Fortran: array expressions, a stencil, allocatable arrays, formatted output of the sum.
program fortran_check
  implicit none
  integer, parameter :: n = 600
  integer :: step
  real(8), allocatable :: now(:,:), next(:,:)
  real(8) :: total
  allocate(now(n, n), next(n, n))
  now = reshape([(mod(step * 7919_8, 1009_8) * 1d-3, step = 1, n * n)], [n, n])
  next = now
  do step = 1, 1500
    next(2:n-1, 2:n-1) = 0.25d0 * (now(1:n-2, 2:n-1) + now(3:n, 2:n-1) + now(2:n-1, 1:n-2) + now(2:n-1, 3:n))
    now = next
  end do
  total = sum(now * now)
  print '(a,es23.15)', 'total=', total
  print '(a)', 'EXIT-SUCCESS'
end program
