// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations of the program's own that need whole vectors, such as one that merges lists, as hypre makes groups of ranks. MPIs pass
// them if the operation does not commute, and short ones if it does.
// ranks: 1 2 3 5
// on tutti: MPI_Allreduce MPI_Exscan MPI_Reduce MPI_Scan
#include <algorithm>
#include <mpi.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "program.hpp"

using namespace program;

namespace {

int appended = 0;

// A list is its length, then its elements.
void append(void* in, void* in_out, int* count, MPI_Datatype*) {
  ++appended;
  auto const* const left = static_cast<int const*>(in);
  auto* const right = static_cast<int*>(in_out);
  int const begin = std::min(left[0], *count - 1), end = std::min(begin + right[0], *count - 1);
  std::copy_backward(right + 1, right + 1 + end - begin, right + 1 + end);
  std::copy(left + 1, left + 1 + begin, right + 1);
  right[0] = end;
}

std::vector<int> list_of_first(int ranks, std::size_t size) {
  std::vector<int> out{ranks};
  for (int r = 0; r < ranks; ++r) out.push_back(r);
  out.resize(size);
  return out;
}

void check(MPI_Comm comm, bool commutes, std::size_t size) {
  int const rank = rank_of(comm), ranks = size_of(comm), root = ranks - 1, count = static_cast<int>(size);
  std::string const what = " of lists in " + std::to_string(size) + " elements";
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(&append, commutes, &op);
  std::vector<int> in(size);
  in[0] = 1;
  in[1] = rank;
  auto const found = [&](auto const& reduce) {
    std::vector<int> out(size);
    reduce(in.data(), out.data());
    if (commutes) std::sort(out.begin() + 1, out.begin() + 1 + std::clamp(out[0], 0, count - 1));
    return out;
  };
  expect(found([&](int* from, int* to) { MPI_Allreduce(from, to, count, MPI_INT, op, comm); }),
         list_of_first(ranks, size), "MPI_Allreduce" + what);
  auto const reduced = found([&](int* from, int* to) { MPI_Reduce(from, to, count, MPI_INT, op, root, comm); });
  if (rank == root) expect(reduced, list_of_first(ranks, size), "MPI_Reduce" + what);
  expect(found([&](int* from, int* to) { MPI_Scan(from, to, count, MPI_INT, op, comm); }),
         list_of_first(rank + 1, size), "MPI_Scan" + what);
  auto const before = found([&](int* from, int* to) { MPI_Exscan(from, to, count, MPI_INT, op, comm); });
  if (rank > 0) expect(before, list_of_first(rank, size), "MPI_Exscan" + what);
  MPI_Op_free(&op);
}

// If ranks share cores, those of MPI_Allreduce do not all do the same work.
void check_work(MPI_Comm comm, int count) {
  int const ranks = size_of(comm);
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(&append, 1, &op);
  std::vector<int> const in(static_cast<std::size_t>(count));
  std::vector<int> out(in.size());
  appended = 0;
  MPI_Allreduce(in.data(), out.data(), count, MPI_INT, op, comm);
  int all = 0;
  MPI_Allreduce(&appended, &all, 1, MPI_INT, MPI_SUM, comm);
  if (ranks > 2 && size_of(MPI_COMM_WORLD) > ::sysconf(_SC_NPROCESSORS_ONLN))
    expect(all, ranks - 1, "times that the operation was called on " + std::to_string(ranks) + " ranks");
  MPI_Op_free(&op);
}

}  // namespace

int main(int argc, char** argv) {
  bool const with_library = argc > 1 && std::string(argv[1]) == "strict";
  return run(MPI_THREAD_SINGLE, [with_library](int) {
    on_communicators([with_library](MPI_Comm comm) {
      std::size_t const least = static_cast<std::size_t>(size_of(comm)) + 1;
      check(comm, false, least);
      check(comm, false, 500'000);
      if (comm == MPI_COMM_WORLD) check(comm, true, least);
      if (!with_library) return;
      check(comm, true, 12'000);
      check_work(comm, 12'000);
    });
  });
}
