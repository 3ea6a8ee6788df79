// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that forked ranks share with their parent, in which they start together and leave their times.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <new>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

// What a rank notes of a block, beside the times of its samples; in nanoseconds.
struct block_notes {
  double wall = 0;   // duration of all samples
  double ended = 0;  // since the measurement began
  double lost = 0;   // the share of `wall` in which others had the core of the rank
};

// What a rank notes of a block that begins with the construction of this object.
class stop_watch {
 public:
  block_notes notes(std::int64_t measurement_began) const {
    std::int64_t const ended = now();
    double const wall = static_cast<double>(ended - began_);
    // A rank that sleeps gives its core away itself.
    bool const was_taken = switches() > switches_;
    double const worked = static_cast<double>(core_time() - worked_);
    return {wall, static_cast<double>(ended - measurement_began), was_taken ? std::max(0.0, 1 - worked / wall) : 0};
  }

 private:
  static long switches() {
    rusage used{};
    ::getrusage(RUSAGE_THREAD, &used);
    return used.ru_nivcsw;
  }
  static std::int64_t core_time() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }

  long switches_ = switches();
  std::int64_t worked_ = core_time(), began_ = now();
};

// How often other programs took a core from the ranks, where each rank has one.
struct disturbance {
  std::size_t blocks = 0, disturbed = 0;

  disturbance& operator+=(disturbance const& other) {
    blocks += other.blocks;
    disturbed += other.disturbed;
    return *this;
  }
};

struct start_line {
  alignas(64) std::atomic<std::int64_t> arrived{0};
  alignas(64) std::atomic<std::int64_t> start{0};
  alignas(64) block_notes notes[max_ranks] = {};
  double times[max_ranks][max_samples] = {};
};

// The times of a block: each sample's at the slowest rank, the times of rank 0, and the greatest loss of any rank. All ranks get the
// same.
struct laps {
  std::vector<double> slowest;
  block_notes notes{};
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
    for (int looks = 0; start == last_; ++looks) {
      if (crowded_ || looks > 1000) ::sched_yield();  // another program may have the core of the last rank
      else tutti::detail::pause_briefly();
      start = line_.start.load();
    }
    while (now() < start) {
    }
    return last_ = start;
  }

  laps finish(std::vector<double> const& own, block_notes const& notes) {
    std::ranges::copy(own, line_.times[rank_]);
    line_.notes[rank_] = notes;
    start();
    // No rank writes its next time before all ranks have reached the next start, and so have read these.
    laps out{std::vector<double>(own.size()), line_.notes[0]};
    for (int r = 0; r < ranks_; ++r) {
      out.notes.lost = std::max(out.notes.lost, line_.notes[r].lost);
      for (std::size_t i = 0; i < own.size(); ++i) out.slowest[i] = std::max(out.slowest[i], line_.times[r][i]);
    }
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
