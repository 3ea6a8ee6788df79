// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the ranks of a benchmark start together: a barrier that belongs to none of the contenders.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <sched.h>

#include <mpi.h>

#include "tutti/core/wait.hpp"

namespace bench {

// Nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
inline std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// The last rank to come sets the time at which all start, a little ahead, so that ranks that learn of it late do not start
// late. A collective's time is from there to the end of its last rank: no rank's clock starts while it waits for another.
class start_line {
 public:
  // `crowded`: more ranks than cores. Then nobody spins, and the start is the moment when the last rank came.
  start_line(MPI_Comm comm, bool crowded) : crowded_(crowded) {
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks_);
    MPI_Win_allocate_shared(rank == 0 ? sizeof(line) : 0, 1, MPI_INFO_NULL, comm, &line_, &window_);
    MPI_Aint bytes = 0;
    int unit = 0;
    MPI_Win_shared_query(window_, 0, &bytes, &unit, &line_);
    if (rank == 0) new (line_) line{};
    MPI_Barrier(comm);
  }
  start_line(start_line const&) = delete;
  start_line& operator=(start_line const&) = delete;
  ~start_line() { MPI_Win_free(&window_); }

  // Returns the common start, when it has come.
  std::int64_t wait() {
    if (line_->arrived.fetch_add(1) + 1 == ranks_ * ++turn_) line_->start.store(now() + (crowded_ ? 0 : lead));
    std::int64_t start = line_->start.load();
    while (start == last_) {
      if (crowded_) ::sched_yield();
      else tutti::pause_briefly();
      start = line_->start.load();
    }
    while (now() < start) {
    }
    return last_ = start;
  }

 private:
  static constexpr std::int64_t lead = 500;

  struct line {
    alignas(64) std::atomic<std::int64_t> arrived{0};
    alignas(64) std::atomic<std::int64_t> start{0};
  };

  bool crowded_;
  int ranks_ = 1;
  line* line_ = nullptr;
  MPI_Win window_{};
  std::int64_t turn_ = 0;
  std::int64_t last_ = 0;
};

}  // namespace bench
