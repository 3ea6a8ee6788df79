// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Watches the processes of the other ranks of a machine: an MPI without fault tolerance does not tell when one ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mpi.h>
#include <string>
#include <sys/types.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/file.hpp"
#include "tutti/core/hash.hpp"
#include "tutti/core/process.hpp"
#include "tutti/transport/mpi/library.hpp"
#include "tutti/transport/system/process_watch.hpp"

namespace tutti::detail {

struct mpi_neighbour {
  int rank = 0;
  std::int64_t process = 0;
  process_watch watch{};
};

// The other ranks that this process sees. All ranks of `here`, which are on one machine as far as the MPI knows, call it.
// `rank`: of the caller, in the numbering of the result. A watch of the same process in `known` is shared, because each holds an
// open file; where no more may be opened, ranks are not watched.
[[gnu::cold]] inline std::vector<mpi_neighbour> find_neighbours(MPI_Comm here, int rank,
                                                                std::vector<mpi_neighbour> const& known) {
  struct introduction {
    std::uint64_t system = 0, processes = 0;  // process numbers are comparable only within a namespace
    std::int64_t process = 0, rank = 0;
  };
  static_assert(sizeof(introduction) == 32);
  std::string const system = read_file("/proc/sys/kernel/random/boot_id").value_or("");
  introduction const self{hash_of(system), process_namespace(), ::getpid(), rank};
  int size = 0;
  expect_success(MPI_Comm_size(here, &size), "MPI_Comm_size");
  std::vector<introduction> all(static_cast<std::size_t>(size));
  expect_success(MPI_Allgather(&self, sizeof self, MPI_BYTE, all.data(), sizeof self, MPI_BYTE, here), "MPI_Allgather");
  std::vector<mpi_neighbour> out;
  for (introduction const& i : all) {
    bool const seen = self.processes != 0 && i.system == self.system && i.processes == self.processes;
    if (i.rank == rank || i.process == self.process || !seen) continue;
    mpi_neighbour n{static_cast<int>(i.rank), i.process, {}};
    auto const same = std::ranges::find(known, i.process, &mpi_neighbour::process);
    try {
      if (same != known.end() && !same->watch.ended()) n.watch = same->watch;
      else n.watch.begin(static_cast<pid_t>(i.process));
      out.push_back(std::move(n));
    } catch (error const&) {  // too many open files
    }
  }
  return out;
}

}  // namespace tutti::detail
