// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Communicators that are created and freed, and the other activities of a program around its collectives: messages that
// need the receiver in MPI, non-blocking collectives, threads, errors.
// ranks: 2 4
// on tutti: MPI_Allreduce MPI_Barrier
#include <mpi.h>
#include <string>
#include <thread>
#include <vector>

#include "program.hpp"

using namespace program;

namespace {

int sum_of_ranks(int ranks) { return ranks * (ranks - 1) / 2; }

void check_sum(MPI_Comm comm, std::string const& what) {
  int const rank = rank_of(comm);
  int all = 0;
  MPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_SUM, comm);
  expect(all, sum_of_ranks(size_of(comm)), what);
}

void check_many() {
  for (int i = 0; i < 100; ++i) {
    MPI_Comm copy = MPI_COMM_NULL, part = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_split(copy, rank_of(copy) % (1 + i % 3), i % 2 == 0 ? rank_of(copy) : -rank_of(copy), &part);
    if (i % 4 == 0) MPI_Comm_free(&copy);
    check_sum(part, "one of many communicators");
    MPI_Comm_free(&part);
    if (copy != MPI_COMM_NULL) {
      check_sum(copy, "a copy among many communicators");
      MPI_Comm_free(&copy);
    }
  }
}

void check_kept() {
  std::vector<MPI_Comm> kept(20);
  for (MPI_Comm& comm : kept) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (MPI_Comm const comm : kept) check_sum(comm, "one of the communicators that are kept");
  for (MPI_Comm& comm : kept) MPI_Comm_free(&comm);
}

void check_between_groups() {
  if (size_of(MPI_COMM_WORLD) < 2) return;
  int const color = rank_of(MPI_COMM_WORLD) % 2;
  MPI_Comm half = MPI_COMM_NULL, between = MPI_COMM_NULL, merged = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, color, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - color, 7, &between);
  int remote = 0, all = 0;
  int const one = 1;
  MPI_Comm_remote_size(between, &remote);
  MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, between);
  expect(all, remote, "MPI_Allreduce between groups");
  MPI_Barrier(between);
  MPI_Intercomm_merge(between, color, &merged);
  check_sum(merged, "a merged communicator");
  for (MPI_Comm* comm : {&half, &between, &merged}) MPI_Comm_free(comm);
}

// A message that leaves in parts while its sender is in a collective.
void check_progress() {
  int const rank = rank_of(MPI_COMM_WORLD), ranks = size_of(MPI_COMM_WORLD);
  if (ranks < 2) return;
  for (int i = 0; i < 3; ++i) {
    MPI_Comm fresh = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
    std::vector<int> data(4 << 20, rank == 0 ? i : -1);
    int const n = static_cast<int>(data.size());
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == 0) MPI_Isend(data.data(), n, MPI_INT, ranks - 1, 3, MPI_COMM_WORLD, &request);
    if (rank == ranks - 1) MPI_Recv(data.data(), n, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(i == 0 ? fresh : MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == ranks - 1) expect(data.back(), i, "a message on its way in a barrier");
    MPI_Comm_free(&fresh);
  }
}

void check_non_blocking() {
  int const rank = rank_of(MPI_COMM_WORLD), ranks = size_of(MPI_COMM_WORLD);
  std::vector<int> mine(50'000, rank), first(mine.size()), second(mine.size());
  int const n = static_cast<int>(mine.size());
  MPI_Request request = MPI_REQUEST_NULL;
  int token = 0;
  if (rank % 2 == 0) {  // a neighbour gets the token before it reaches the collective
    MPI_Iallreduce(mine.data(), first.data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (rank + 1 < ranks) MPI_Send(&token, 1, MPI_INT, rank + 1, 1, MPI_COMM_WORLD);
  } else {
    MPI_Recv(&token, 1, MPI_INT, rank - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Iallreduce(mine.data(), first.data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  }
  MPI_Allreduce(mine.data(), second.data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(first, std::vector<int>(first.size(), sum_of_ranks(ranks)), "MPI_Iallreduce");
  expect(second, first, "MPI_Allreduce while MPI_Iallreduce is on its way");
}

// Two threads, each with communicators of its own among the same ranks.
void check_threads() {
  for (int round = 0; round < 4; ++round) {
    MPI_Comm comms[2];
    for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    bool right[2] = {true, true};
    auto const work = [&](int t) {
      int const rank = rank_of(comms[t]), mine = rank + t * 1000;
      for (int i = 0; i < 50; ++i) {
        int all = 0;
        MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, comms[t]);
        right[t] = right[t] && all == size_of(comms[t]) - 1 + t * 1000;
      }
    };
    std::thread other(work, 1);
    work(0);
    other.join();
    expect(right[0] && right[1], true, "MPI_Allreduce by two threads");
    for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
  }
}

void check_refusal() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int value = 0, kind = MPI_SUCCESS;
  MPI_Error_class(MPI_Bcast(&value, 1, MPI_INT, size_of(comm), comm), &kind);
  expect(kind, MPI_ERR_ROOT, "the error of MPI_Bcast from a root that is not there");
  check_sum(comm, "a communicator after an error");
  MPI_Comm_free(&comm);
}

// Ranks of which some have made another communicator, or have had a call refused, still agree on when tutti takes over.
void check_steps_of_one_rank() {
  MPI_Comm comm = MPI_COMM_NULL, some = MPI_COMM_NULL, next = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int value = 0;
  if (rank_of(comm) == 0) expect(MPI_Bcast(&value, 1, MPI_INT, 99, comm) != MPI_SUCCESS, true, "a refused call");
  for (int i = 0; i < 3; ++i) check_sum(comm, "a communicator on which one rank had a call refused");

  int const too_many = 1000, not_periodic = 0;
  if (rank_of(comm) == 0)
    expect(MPI_Cart_create(comm, 1, &too_many, &not_periodic, 0, &next) != MPI_SUCCESS, true, "a refused grid");
  MPI_Comm_split(comm, 0, rank_of(comm), &next);
  for (int i = 0; i < 3; ++i) check_sum(next, "a communicator after one that a rank could not make");
  MPI_Comm_free(&next);

  MPI_Group all = MPI_GROUP_NULL, first = MPI_GROUP_NULL;
  MPI_Comm_group(comm, &all);
  int const zero = 0;
  MPI_Group_incl(all, 1, &zero, &first);
  if (rank_of(comm) == 0) {
    MPI_Comm_create_group(comm, first, 0, &some);
    MPI_Comm_free(&some);
  }
  MPI_Comm_dup(comm, &next);
  for (int i = 0; i < 3; ++i) check_sum(next, "a duplicate after a group that one rank has made");
  MPI_Comm_free(&next);
  MPI_Group_free(&first);
  MPI_Group_free(&all);
  MPI_Comm_free(&comm);
}

}  // namespace

int main() {
  return run(MPI_THREAD_MULTIPLE, [](int provided) {
    check_sum(MPI_COMM_SELF, "MPI_COMM_SELF");
    check_progress();
    check_many();
    check_kept();
    check_between_groups();
    check_non_blocking();
    if (provided == MPI_THREAD_MULTIPLE) check_threads();
    check_refusal();
    check_steps_of_one_rank();
  });
}
