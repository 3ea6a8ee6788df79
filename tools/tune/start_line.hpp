// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that forked ranks share with their parent, in which they start together and leave their times.
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

// An object in memory that is shared with children that are forked later.
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

// The time in nanoseconds, from a clock that all processes of a machine share.
inline std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

inline constexpr int max_ranks = 64;
inline constexpr int max_samples = 256;

struct start_line {
  alignas(64) std::atomic<std::int64_t> arrived{0};
  alignas(64) std::atomic<std::int64_t> start{0};
  alignas(64) double wall = 0;  // duration of the block at rank 0
  double times[max_ranks][max_samples] = {};
};

// The times of a block: each sample's at the slowest rank, and the duration of all samples at rank 0.
struct laps {
  std::vector<double> slowest;
  double wall = 0;
};

// Ranks that share memory. The last rank to arrive sets a start a little in the future, so that ranks that learn of it late still start
// on time. A sample is measured from the start to the end of the last rank. Ranks that share cores yield instead of spinning, and start
// when the last one has arrived.
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
    // No rank writes its next time before all ranks have reached the next start, and so have read these.
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
