// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where forked ranks start together and leave their times, in memory that they share with their parent.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <sched.h>
#include <stdexcept>
#include <sys/mman.h>

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
  alignas(64) std::int64_t wall = 0;  // of the block, by rank 0
  std::int64_t times[most_ranks][most_samples] = {};
};

// The last rank to come sets the start, a little ahead, so that ranks that learn of it late do not start late: a time
// is from there to the end of the last rank. Where ranks share cores nobody spins, and the start is when the last one
// came.
class runner {
 public:
  runner(start_line& line, int ranks, bool crowded) : line_(line), ranks_(ranks), crowded_(crowded) {}

  std::int64_t wait() {
    if (line_.arrived.fetch_add(1) + 1 == ranks_ * ++turn_) line_.start.store(now() + (crowded_ ? 0 : lead));
    std::int64_t start = line_.start.load();
    while (start == last_) {
      if (crowded_) ::sched_yield();
      else tutti::pause_briefly();
      start = line_.start.load();
    }
    while (now() < start) {
    }
    return last_ = start;
  }

 private:
  static constexpr std::int64_t lead = 500;

  start_line& line_;
  int ranks_;
  bool crowded_;
  std::int64_t turn_ = 0;
  std::int64_t last_ = 0;
};

}  // namespace tuning
