// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where forked ranks start together and leave their times, in memory that they share with their parent.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <sched.h>
#include <sys/mman.h>
#include <vector>

#include "tutti/core/wait.hpp"

namespace tuning {

// One object in memory that children which are forked later share.
template <class T>
class shared {
 public:
  shared() {
    void* const at = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    object_ = new (at) T{};
  }
  shared(shared const&) = delete;
  shared& operator=(shared const&) = delete;
  ~shared() { ::munmap(object_, sizeof(T)); }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }

 private:
  T* object_;
};

// Nanoseconds of a clock that all processes of a machine share.
inline std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

inline constexpr int most_ranks = 64;
inline constexpr int most_samples = 256;

struct start_line {
  alignas(64) std::atomic<std::int64_t> arrived{0};
  alignas(64) std::atomic<std::int64_t> start{0};
  alignas(64) double wall = 0;  // of the block, by rank 0
  double times[most_ranks][most_samples] = {};
};

// What the ranks learn of a block: each sample's time at the slowest rank, and how long all of it took at rank 0.
struct laps {
  std::vector<double> slowest;
  double wall = 0;
};

// Ranks that share memory. The last one to come sets the start, a little ahead, so that ranks that learn of it late do not
// start late: a time is from there to the end of the last rank. Where ranks share cores nobody spins, and the start is when
// the last one came.
class shared_field {
 public:
  shared_field(start_line& line, int rank, int ranks, bool crowded)
      : line_(line), rank_(rank), ranks_(ranks), crowded_(crowded) {}

  std::int64_t start() {
    if (line_.arrived.fetch_add(1) + 1 == ranks_ * ++turn_) line_.start.store(now() + (crowded_ ? 0 : lead));
    std::int64_t start = line_.start.load();
    while (start == last_) {
      if (crowded_) ::sched_yield();
      else tutti::detail::pause_briefly();
      start = line_.start.load();
    }
    while (now() < start) {
    }
    return last_ = start;
  }

  laps finish(std::vector<double> const& own, double wall) {
    std::ranges::copy(own, line_.times[rank_]);
    if (rank_ == 0) line_.wall = wall;
    start();
    // Nobody writes another time before all ranks have come to the next start, and so have read these.
    laps out{std::vector<double>(own.size()), line_.wall};
    for (int r = 0; r < ranks_; ++r)
      for (std::size_t i = 0; i < own.size(); ++i) out.slowest[i] = std::max(out.slowest[i], line_.times[r][i]);
    return out;
  }

 private:
  static constexpr std::int64_t lead = 500;

  start_line& line_;
  int rank_, ranks_;
  bool crowded_;
  std::int64_t turn_ = 0;
  std::int64_t last_ = 0;
};

}  // namespace tuning
