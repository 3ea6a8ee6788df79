// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Many collectives in flight, on several communicators and together with messages, waited for in every way that MPI
// offers.
// ranks: 2 4
// on tutti: MPI_Iallreduce MPI_Ibcast MPI_Ibarrier MPI_Iallgather MPI_Ialltoall
#include <mpi.h>
#include <vector>

#include "program.hpp"

using namespace program;

namespace {

struct flight {
  std::vector<int> sum, copy, all;
  std::vector<MPI_Request> requests;
};

// Five collectives, one of them blocking.
flight start(MPI_Comm comm, int n) {
  int const rank = rank_of(comm), ranks = size_of(comm);
  auto const count = static_cast<std::size_t>(n);
  flight out{std::vector<int>(count, rank), std::vector<int>(count, rank), std::vector<int>(count), {}};
  out.all.resize(count * static_cast<std::size_t>(ranks));
  out.requests.resize(4);
  MPI_Iallreduce(MPI_IN_PLACE, out.sum.data(), n, MPI_INT, MPI_SUM, comm, &out.requests[0]);
  MPI_Ibcast(out.copy.data(), n, MPI_INT, ranks - 1, comm, &out.requests[1]);
  int one = 1, sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  expect(sum, ranks, "a blocking sum among others");
  MPI_Iallgather(&rank, n > 0 ? 1 : 0, MPI_INT, out.all.data(), n > 0 ? 1 : 0, MPI_INT, comm, &out.requests[2]);
  MPI_Wait(&out.requests[2], MPI_STATUS_IGNORE);  // `rank` goes out of scope
  MPI_Ibarrier(comm, &out.requests[3]);
  return out;
}

void check(flight const& f, MPI_Comm comm, std::string const& how) {
  int const ranks = size_of(comm);
  for (int const value : f.sum) expect(value, ranks * (ranks - 1) / 2, "a sum waited for by " + how);
  for (int const value : f.copy) expect(value, ranks - 1, "a copy waited for by " + how);
  for (MPI_Request const r : f.requests) expect(r == MPI_REQUEST_NULL, true, "a request after " + how);
}

void wait_in_every_way(MPI_Comm comm, int n) {
  flight f = start(comm, n);
  MPI_Waitall(4, f.requests.data(), MPI_STATUSES_IGNORE);
  check(f, comm, "MPI_Waitall");

  f = start(comm, n);
  for (int left = 3; left > 0; --left) {
    int index = MPI_UNDEFINED;
    MPI_Status status;
    MPI_Waitany(4, f.requests.data(), &index, &status);
    expect(index >= 0 && index < 4, true, "an index of MPI_Waitany");
  }
  check(f, comm, "MPI_Waitany");

  f = start(comm, n);
  for (int left = 3; left > 0;) {
    int done = 0, indices[4];
    MPI_Status statuses[4];
    MPI_Waitsome(4, f.requests.data(), &done, indices, statuses);
    expect(done > 0, true, "a count of MPI_Waitsome");
    left -= done;
  }
  check(f, comm, "MPI_Waitsome");

  f = start(comm, n);
  for (int done = 0; done == 0;) MPI_Testall(4, f.requests.data(), &done, MPI_STATUSES_IGNORE);
  check(f, comm, "MPI_Testall");

  f = start(comm, n);
  for (int seen = 0; seen == 0;) MPI_Request_get_status(f.requests[3], &seen, MPI_STATUS_IGNORE);
  for (int left = 3; left > 0;) {
    int index = 0, done = 0;
    MPI_Testany(4, f.requests.data(), &index, &done, MPI_STATUS_IGNORE);
    left -= done;
  }
  check(f, comm, "MPI_Testany");
}

// MPI 4.1's queries of lists of requests, which end no request.
void query_lists([[maybe_unused]] MPI_Comm comm, [[maybe_unused]] int n) {
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
  flight f = start(comm, n);
  for (int seen = 0; seen == 0;) {
    int index = MPI_UNDEFINED;
    MPI_Request_get_status_any(4, f.requests.data(), &index, &seen, MPI_STATUS_IGNORE);
    if (seen != 0) expect(index >= 0 && index < 4 && index != 2, true, "an index of MPI_Request_get_status_any");
  }
  MPI_Waitall(4, f.requests.data(), MPI_STATUSES_IGNORE);
  check(f, comm, "MPI_Request_get_status_any");

  f = start(comm, n);
  int indices[4];
  for (int done = 0; done == 0;) MPI_Request_get_status_some(4, f.requests.data(), &done, indices, MPI_STATUSES_IGNORE);
  MPI_Waitall(4, f.requests.data(), MPI_STATUSES_IGNORE);
  check(f, comm, "MPI_Request_get_status_some");

  f = start(comm, n);
  for (int seen = 0; seen == 0;) MPI_Request_get_status_all(4, f.requests.data(), &seen, MPI_STATUSES_IGNORE);
  for (std::size_t i = 0; i < 4; ++i) expect(f.requests[i] == MPI_REQUEST_NULL, i == 2, "a request after a query");
  MPI_Waitall(4, f.requests.data(), MPI_STATUSES_IGNORE);
  check(f, comm, "MPI_Request_get_status_all");
#endif
}

// A rank waits for a collective while another waits for a message that is sent after it.
void wait_for_messages() {
  int token = world_rank, sum = 0;
  MPI_Request request;
  MPI_Iallreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  if (world_rank == 1) MPI_Recv(&token, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (world_rank == 0) MPI_Send(&token, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
  int const ranks = size_of(MPI_COMM_WORLD);
  expect(sum, ranks * (ranks - 1) / 2, "a sum beside a message");
  if (world_rank == 1) expect(token, 0, "a message beside a sum");

  // Both in one list.
  int from_left = -1;
  MPI_Request both[3];
  MPI_Irecv(&from_left, 1, MPI_INT, (world_rank + ranks - 1) % ranks, 8, MPI_COMM_WORLD, &both[0]);
  MPI_Ibarrier(MPI_COMM_WORLD, &both[1]);
  MPI_Isend(&world_rank, 1, MPI_INT, (world_rank + 1) % ranks, 8, MPI_COMM_WORLD, &both[2]);
  MPI_Waitall(3, both, MPI_STATUSES_IGNORE);
  expect(from_left, (world_rank + ranks - 1) % ranks, "a message in a list with a barrier");
}

// A long message needs its sender in the MPI; the sender waits in a barrier while another collective is pending.
void wait_beside_a_message(MPI_Comm other) {
  std::vector<char> message(std::size_t{8} << 20, static_cast<char>(world_rank));
  int sum = 0;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int const n = static_cast<int>(message.size());
  if (world_rank == 0) MPI_Isend(message.data(), n, MPI_CHAR, 1, 10, MPI_COMM_WORLD, &requests[0]);
  if (world_rank == 1) MPI_Recv(message.data(), n, MPI_CHAR, 0, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Iallreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, other, &requests[1]);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  int const ranks = size_of(MPI_COMM_WORLD);
  expect(sum, ranks * (ranks - 1) / 2, "a sum beside a long message");
  if (world_rank == 1) expect(message.back(), char{0}, "a long message beside a sum");
}

// Ranks wait in opposite orders for calls on two communicators, and free one whose call is in progress; one call ends
// with MPI.
void two_communicators() {
  MPI_Comm other = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  // The first collective on a communicator must not wait either.
  int token = 0;
  MPI_Request first_use;
  if (world_rank == 1) MPI_Recv(&token, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Ibarrier(other, &first_use);
  if (world_rank == 0) MPI_Send(&token, 1, MPI_INT, 1, 9, MPI_COMM_WORLD);
  MPI_Wait(&first_use, MPI_STATUS_IGNORE);
  MPI_Barrier(other);
  wait_beside_a_message(other);
  int const ranks = size_of(MPI_COMM_WORLD);
  for (int round = 0; round < 50; ++round) {
    std::vector<int> a(3000, 1), b(2, 2);
    MPI_Request requests[2];
    MPI_Iallreduce(MPI_IN_PLACE, a.data(), 3000, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallreduce(MPI_IN_PLACE, b.data(), 2, MPI_INT, MPI_SUM, other, &requests[1]);
    int const first = world_rank % 2;
    MPI_Wait(&requests[first], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1 - first], MPI_STATUS_IGNORE);
    expect(a[2999], ranks, "a sum of two in flight");
    expect(b[1], 2 * ranks, "the other sum of two in flight");
  }
  // Every second element, packed at the start and unpacked when the request is completed.
  MPI_Datatype spread = MPI_DATATYPE_NULL;
  MPI_Type_vector(10, 1, 2, MPI_INT, &spread);
  MPI_Type_commit(&spread);
  std::vector<int> sparse(20, world_rank);
  MPI_Request request;
  MPI_Ibcast(sparse.data(), 1, spread, 0, other, &request);
  MPI_Comm_free(&other);
  MPI_Type_free(&spread);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (std::size_t i = 0; i < 20; ++i) expect(sparse[i], i % 2 == 0 ? 0 : world_rank, "a broadcast of every second");
}

// MPI forbids it, but the call goes on, and its memory stays until it has ended.
void free_requests() {
  std::vector<int> sums(100);
  int const one = 1;
  for (int& sum : sums) {
    MPI_Request request;
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
  }
  MPI_Request last;
  MPI_Ibarrier(MPI_COMM_WORLD, &last);
  MPI_Wait(&last, MPI_STATUS_IGNORE);
  for (int const sum : sums) expect(sum, size_of(MPI_COMM_WORLD), "a sum whose request was freed");
}

// A persistent collective, which the MPI carries out, in one list with collectives on tutti.
void wait_beside_a_persistent_one() {
#if MPI_VERSION >= 4
  int const one = 1;
  int persistent_sum = 0;
  MPI_Request requests[2];
  MPI_Allreduce_init(&one, &persistent_sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
  for (int round = 0; round < 20; ++round) {
    int sum = persistent_sum = 0;
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Start(&requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect(sum, size_of(MPI_COMM_WORLD), "a sum beside a persistent one");
    expect(persistent_sum, size_of(MPI_COMM_WORLD), "a persistent sum");
  }
  MPI_Request_free(&requests[1]);
#endif
}

// As tools do that wrap some functions of MPI.
void wait_by_profiling_functions() {
  int const one = 1;
  int sum = 0, ended = 0;
  MPI_Request request;
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  PMPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(sum, size_of(MPI_COMM_WORLD), "a sum after PMPI_Wait");
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  while (ended == 0) PMPI_Test(&request, &ended, MPI_STATUS_IGNORE);
  expect(sum, size_of(MPI_COMM_WORLD), "a sum after PMPI_Test");
}

}  // namespace

int main(int argc, char**) {
  return run(MPI_THREAD_SINGLE, [&](int) {
    if (argc > 1) free_requests();
    for (int const n : {0, 1, 1000, 200000})
      on_communicators([&](MPI_Comm comm) {
        wait_in_every_way(comm, n);
        query_lists(comm, n);
      });
    for (int round = 0; round < 20; ++round) wait_for_messages();
    two_communicators();
    wait_beside_a_persistent_one();
    wait_by_profiling_functions();
    std::vector<int> out(static_cast<std::size_t>(size_of(MPI_COMM_WORLD)));
    std::vector<int> const in(out.size(), world_rank);
    MPI_Request request;
    MPI_Ialltoall(in.data(), 1, MPI_INT, out.data(), 1, MPI_INT, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (std::size_t q = 0; q < out.size(); ++q) expect(out[q], static_cast<int>(q), "an all to all");
  });
}
