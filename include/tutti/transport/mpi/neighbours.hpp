// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Watches the processes of the other ranks of a machine: an MPI without fault tolerance does not tell when one ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mpi.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/process.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/transport/mpi/library.hpp"
#include "tutti/transport/system/distant_process.hpp"
#include "tutti/transport/system/process_watch.hpp"
#include "tutti/transport/system/uncaught.hpp"

namespace tutti::detail {

// A process as every rank of the job may know it.
struct process_name {
  std::uint64_t system = 0, processes = 0;  // numbers are comparable only within a namespace
  std::int64_t number = 0;

  static process_name own() {
    return {running_system(), process_namespace(), ::syscall(SYS_getpid)};  // SimGrid replaces getpid()
  }
  friend bool operator==(process_name const&, process_name const&) = default;
};

struct mpi_neighbour {
  int rank = 0;
  process_name process{};
  process_watch watch{};
};

// Adds a watch of a process: that of `known` if there is one, because each holds an open file, else a new one, which begin(watch) begins.
// If the system allows no more open files, the rank is not watched.
template <class Begin>
[[gnu::cold]] void add_neighbour(std::vector<mpi_neighbour>& to, int rank, process_name const& process,
                                 std::vector<mpi_neighbour> const& known, Begin&& begin) {
  mpi_neighbour n{rank, process, {}};
  auto const same = std::ranges::find(known, process, &mpi_neighbour::process);
  try {
    if (same != known.end() && !same->watch.ended()) n.watch = same->watch;
    else begin(n.watch);
    to.push_back(std::move(n));
  } catch (error const&) {  // too many open files
  }
}

// The other ranks that this process sees. All ranks of `here`, which are on one machine as far as the MPI knows, call it.
// `rank`: of the caller, in the numbering of the result.
[[gnu::cold]] inline std::vector<mpi_neighbour> find_neighbours(MPI_Comm here, int rank,
                                                                std::vector<mpi_neighbour> const& known) {
  struct introduction {
    process_name process;
    std::int32_t rank, file;
  };
  static_assert(sizeof(introduction) == 32);
  int size = 0, rank_here = 0;
  expect_success(MPI_Comm_size(here, &size), "MPI_Comm_size");
  expect_success(MPI_Comm_rank(here, &rank_here), "MPI_Comm_rank");
  bool const keeps_file = rank_here == 0 && size > 1;
  introduction const self{process_name::own(), rank, keeps_file ? file_of_uncaught_errors() : -1};
  std::vector<introduction> all(static_cast<std::size_t>(size));
  expect_success(MPI_Allgather(&self, sizeof self, MPI_BYTE, all.data(), sizeof self, MPI_BYTE, here), "MPI_Allgather");
  std::vector<mpi_neighbour> out;
  auto const sees = [&](introduction const& i) {
    return self.process.processes != 0 && i.process.system == self.process.system &&
           i.process.processes == self.process.processes;
  };
  // In SimGrid, ranks share a process.
  bool const alone_in_process = std::ranges::count(all, self.process, &introduction::process) == 1;
  if (introduction const& keeper = all.front(); sees(keeper) && alone_in_process)
    share_uncaught_errors_with(static_cast<pid_t>(keeper.process.number), keeper.file, rank);
  for (introduction const& i : all) {
    bool const seen = sees(i);
    if (i.rank == rank || i.process == self.process || !seen) continue;
    add_neighbour(out, i.rank, i.process, known,
                  [&](process_watch& w) { w.begin(static_cast<pid_t>(i.process.number)); });
  }
  return out;
}

// Adds the next rank to `seen` if it is not among them, so that somebody notices the end of a rank that is alone on its machine. All
// ranks of `all` call it. A process opens a port only if the previous rank is in a process that cannot see this one.
[[gnu::cold]] inline void watch_next_rank(MPI_Comm all, int rank, std::vector<mpi_neighbour> const& known,
                                          std::vector<mpi_neighbour>& seen) {
  struct introduction {
    process_name process;
    process_port port{};
  };
  int size = 0;
  expect_success(MPI_Comm_size(all, &size), "MPI_Comm_size");
  int const before = wrap(rank - 1, size), after = wrap(rank + 1, size);
  introduction self{process_name::own()}, previous, next;
  auto const exchange = [&](int to, int from, introduction& received) {
    expect_success(MPI_Sendrecv(&self, sizeof self, MPI_BYTE, to, 0, &received, sizeof received, MPI_BYTE, from, 0, all,
                                MPI_STATUS_IGNORE),
                   "MPI_Sendrecv");
    return received.process != self.process && std::ranges::find(seen, from, &mpi_neighbour::rank) == seen.end();
  };
  if (exchange(after, before, previous)) self.port = own_port();
  if (exchange(before, after, next) && next.port.number != 0)
    add_neighbour(seen, after, next.process, known, [&](process_watch& w) { w.begin(next.port); });
}

}  // namespace tutti::detail
