// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Communicators that are made in every way and then used by non-blocking collectives only, a function for each way, so
// that the list below shows that all of them run on tutti. Many communicators of a few calls take no address space.
// ranks: 2 4
// on tutti: MPI_Iallreduce MPI_Ibcast MPI_Iallgather MPI_Ibarrier MPI_Ialltoall MPI_Iscan MPI_Igather MPI_Ireduce
#include <algorithm>
#include <fstream>
#include <iterator>
#include <mpi.h>
#include <string>
#include <vector>

#include "program.hpp"

using namespace program;

namespace {

constexpr int rounds = 4;

// Calls start(request) again and again. Before its last call, rank 0 waits for a message that rank 1 sends after its own:
// a non-blocking call must not wait for other ranks.
template <class Start>
void use(MPI_Comm comm, Start&& start) {
  for (int i = 0; i < rounds; ++i) {
    int const rank = rank_of(comm), ranks = size_of(comm);
    int token = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == 0 && ranks > 1) MPI_Recv(&token, 1, MPI_INT, 1, 5, comm, MPI_STATUS_IGNORE);
    start(&request);
    if (rank == 1) MPI_Send(&token, 1, MPI_INT, 0, 5, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Comm_free(&comm);
}

void check_duplicate() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  int const one = 1, ranks = size_of(comm);
  int sum = 0;
  use(comm, [&](MPI_Request* r) { MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, r); });
  expect(sum, ranks, "a sum on a duplicate");
}

void check_later_duplicate() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  int const one = 1, ranks = size_of(comm);
  int sum = 0;
  use(comm, [&](MPI_Request* r) { MPI_Ireduce(&one, &sum, 1, MPI_INT, MPI_SUM, 0, comm, r); });
  if (world_rank == 0) expect(sum, ranks, "a sum on a duplicate by MPI_Comm_idup");
}

// The halves derive communicators of their own, whose members differ but not the way that they were made.
void check_parts() {
  MPI_Comm half = MPI_COMM_NULL, comm = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank / 2, -world_rank, &half);
  MPI_Comm_split(half, 0, world_rank, &comm);
  MPI_Comm_free(&half);
  int value = world_rank;
  int const first = world_rank / 2 * 2;
  use(comm, [&](MPI_Request* r) { MPI_Ibcast(&value, 1, MPI_INT, 0, comm, r); });
  expect(value, first, "a value that half of the ranks broadcast");
}

void check_grid() {
  int const ranks = size_of(MPI_COMM_WORLD), sizes[] = {ranks / 2, 2}, periodic[] = {0, 0}, kept[] = {0, 1};
  MPI_Comm grid = MPI_COMM_NULL, row = MPI_COMM_NULL;
  MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periodic, 0, &grid);
  MPI_Cart_sub(grid, kept, &row);
  MPI_Comm_free(&grid);
  std::vector<int> all(2);
  use(row, [&](MPI_Request* r) { MPI_Iallgather(&world_rank, 1, MPI_INT, all.data(), 1, MPI_INT, row, r); });
  expect(all[0] + 1, all[1], "the neighbours in a grid");
}

// By a group, which is all ranks in reverse order.
void check_groups() {
  int const ranks = size_of(MPI_COMM_WORLD);
  std::vector<int> reversed, in(static_cast<std::size_t>(ranks), world_rank), out(in.size());
  for (int r = ranks; r-- > 0;) reversed.push_back(r);
  MPI_Group all = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, ranks, reversed.data(), &group);
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
  use(comm, [&](MPI_Request* r) { MPI_Ibarrier(comm, r); });
  MPI_Comm_create_group(MPI_COMM_WORLD, group, 3, &comm);
  use(comm, [&](MPI_Request* r) { MPI_Ialltoall(in.data(), 1, MPI_INT, out.data(), 1, MPI_INT, comm, r); });
  expect(out, reversed, "what each rank of a group sent");
  MPI_Group_free(&all);
  MPI_Group_free(&group);
}

void check_graph() {
  int const next = (world_rank + 1) % size_of(MPI_COMM_WORLD), one = 1;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &world_rank, &one, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
  std::vector<int> all(static_cast<std::size_t>(size_of(comm)));
  use(comm, [&](MPI_Request* r) { MPI_Igather(&world_rank, 1, MPI_INT, all.data(), 1, MPI_INT, 0, comm, r); });
  if (world_rank == 0) expect(all.back(), static_cast<int>(all.size()) - 1, "the last rank of a graph");
}

void check_merged() {
  MPI_Comm half = MPI_COMM_NULL, between = MPI_COMM_NULL, comm = MPI_COMM_NULL;
  int const side = world_rank % 2;
  MPI_Comm_split(MPI_COMM_WORLD, side, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 7, &between);
  MPI_Intercomm_merge(between, side, &comm);
  MPI_Comm_free(&half);
  MPI_Comm_free(&between);
  int const one = 1, rank = rank_of(comm);
  int sum = 0;
  use(comm, [&](MPI_Request* r) { MPI_Iscan(&one, &sum, 1, MPI_INT, MPI_SUM, comm, r); });
  expect(sum, rank + 1, "a scan of merged groups");
}

long address_space_in_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    long kilobytes = 0;
    if (word == "VmSize:" && status >> kilobytes) return kilobytes / 1024;
  }
  return 0;
}

long mappings() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

void check_many(bool with_library) {
  std::vector<MPI_Comm> kept(100);
  long const before = address_space_in_megabytes(), mapped_before = mappings();
  for (MPI_Comm& comm : kept) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < rounds; ++i) {
      int const one = 1;
      int sum = 0;
      MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
      expect(sum, size_of(comm), "a sum on one of many communicators");
    }
  }
  long const taken = address_space_in_megabytes() - before;
  long const mapped = mappings() - mapped_before;
  if (with_library) {
    expect(taken < 200, true, "the address space of 100 communicators, " + std::to_string(taken) + " MB,");
    // One that mapped memory of its own would add one or two, and take the time of the system calls for that.
    expect(mapped < 50, true, "the mappings of 100 communicators, " + std::to_string(mapped) + ",");
  }
  for (MPI_Comm& comm : kept) MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char**) {
  return run(MPI_THREAD_SINGLE, [&](int) {
    // First, because Open MPI 5.0.7 sometimes never returns from MPI_Dist_graph_create on 4 ranks that have made several communicators,
    // also without the library.
    check_graph();
    check_duplicate();
    check_later_duplicate();
    check_parts();
    check_grid();
    check_groups();
    check_merged();
    check_many(argc > 1);
  });
}
