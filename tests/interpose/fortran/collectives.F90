! SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
! Collectives in Fortran: their results must be right with the library and without it. INTERFACE_F08, INTERFACE_USE or neither,
! for mpif.h, says how the program gets to know MPI.

#if defined(INTERFACE_F08)
#define KNOW_MPI use mpi_f08
#define INCLUDE_MPI
#define HANDLE(of) type(of)
#define STATUS_OF(name) type(MPI_Status) :: name
#else
#define HANDLE(of) integer
#define STATUS_OF(name) integer :: name(MPI_STATUS_SIZE)
#if defined(INTERFACE_USE)
#define KNOW_MPI use mpi
#define INCLUDE_MPI
#else
#define KNOW_MPI
#define INCLUDE_MPI include 'mpif.h'
#endif
#endif

module checks
  implicit none
  integer :: failures = 0
contains
  subroutine expect(right, what)
    logical, intent(in) :: right
    character(*), intent(in) :: what
    if (.not. right) then
      print *, what, ' is wrong'
      failures = failures + 1
    end if
  end subroutine
end module

! The sum of squares, as an operation of the program's own.
subroutine add_squares(in, inout, count, kind)
  KNOW_MPI
  implicit none
  INCLUDE_MPI
  integer :: count
  integer :: in(count), inout(count)
  HANDLE(MPI_Datatype) :: kind
  inout = inout + in
end subroutine

program collectives
  KNOW_MPI
  use checks
  implicit none
  INCLUDE_MPI
  external :: add_squares
  integer :: rank, ranks, code, all, i, value
  integer :: numbers(3), gathered(64), sums(64)
  integer(kind=MPI_ADDRESS_KIND) :: place(1)
  integer :: lengths(1)
  double precision :: mine(1000), total(1000)
  logical :: done
  HANDLE(MPI_Comm) :: half
  HANDLE(MPI_Request) :: request, two(2)
  HANDLE(MPI_Datatype) :: there
  HANDLE(MPI_Op) :: squares
  STATUS_OF(status)

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)

  mine = rank + 1
  call MPI_Allreduce(mine, total, 1000, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
  call expect(all_are(total, ranks * (ranks + 1) / 2), 'a sum')
  call expect(code == MPI_SUCCESS, 'the code of a sum')
  call MPI_Allreduce(MPI_IN_PLACE, mine, 1000, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, code)
  call expect(all_are(mine, ranks), 'a maximum in place')

  ! memory that a datatype names by its address
  numbers = -1
  if (rank == 0) numbers = (/1, 2, 3/)
  call MPI_Get_address(numbers, place(1), code)
  lengths(1) = 3
  call MPI_Type_create_hindexed(1, lengths, place, MPI_INTEGER, there, code)
  call MPI_Type_commit(there, code)
  call MPI_Bcast(MPI_BOTTOM, 1, there, 0, MPI_COMM_WORLD, code)
  call MPI_Type_free(there, code)
  call expect(numbers(1) == 1 .and. numbers(3) == 3, 'a broadcast of MPI_BOTTOM')

  gathered = -1
  gathered(rank + 1) = 10 * rank
  call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, gathered, 1, MPI_INTEGER, MPI_COMM_WORLD, code)
  do i = 1, ranks
    call expect(gathered(i) == 10 * (i - 1), 'what all have gathered')
  end do
  call MPI_Gather(rank, 1, MPI_INTEGER, sums, 1, MPI_INTEGER, ranks - 1, MPI_COMM_WORLD, code)
  if (rank == ranks - 1) call expect(sums(ranks) == ranks - 1, 'what the last rank has gathered')

  call MPI_Op_create(add_squares, .true., squares, code)
  value = rank
  call MPI_Allreduce(value, all, 1, MPI_INTEGER, squares, MPI_COMM_WORLD, code)
  call expect(all == ranks * (ranks - 1) / 2, 'a sum by an operation of the program')
  call MPI_Op_free(squares, code)

  call MPI_Iallreduce(rank, all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request, code)
  call MPI_Wait(request, status, code)
  call expect(all == ranks * (ranks - 1) / 2, 'a sum by a request')
  call MPI_Iallreduce(rank, all, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, two(1), code)
  call MPI_Ibarrier(MPI_COMM_WORLD, two(2), code)
  done = .false.
  do while (.not. done)
    call MPI_Testall(2, two, done, MPI_STATUSES_IGNORE, code)
  end do
  call expect(all == ranks - 1, 'a maximum by one of two requests')

  ! a communicator that is only used by requests
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), -rank, half, code)
  do i = 1, 3
    value = rank
    call MPI_Ibcast(value, 1, MPI_INTEGER, 0, half, request, code)
    call MPI_Wait(request, MPI_STATUS_IGNORE, code)
  end do
  call expect(value == ranks - 1 - mod(ranks - 1 - rank, 2), 'a broadcast on half of the ranks')
  call MPI_Comm_free(half, code)

  call MPI_Allreduce(failures, all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
  if (rank == 0 .and. all == 0) print *, 'right'
  call MPI_Finalize(code)
  if (all /= 0) stop 1

contains
  logical function all_are(values, right)
    double precision, intent(in) :: values(:)
    integer, intent(in) :: right
    all_are = maxval(abs(values - right)) == 0
  end function
end program
