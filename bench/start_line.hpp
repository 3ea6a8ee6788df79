// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A mapped file in which the ranks of a team start together and leave their times. It belongs to no contender.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <sched.h>
#include <stdexcept>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "tutti/core/wait.hpp"

namespace bench {

// Nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
inline std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

class start_line {
 public:
  static constexpr std::size_t max_samples = 8192;

  // `crowded`: there are more ranks than cores. Then no rank spins, and the start is the arrival of the last rank.
  start_line(char const* path, int rank, int ranks, bool crowded) : rank_(rank), ranks_(ranks), crowded_(crowded) {
    std::size_t const bytes = sizeof(page) + sizeof(double) * max_samples * static_cast<std::size_t>(ranks);
    int const file = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void* const memory = file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0
                             ? MAP_FAILED
                             : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), path);
    ::close(file);
    page_ = static_cast<page*>(memory);
    times_ = reinterpret_cast<double*>(page_ + 1);
  }

  // Waits for the common start and returns it. The last rank to arrive sets it a little in the future, so that ranks that learn of it
  // late still start on time.
  std::int64_t wait() {
    if (page_->arrived.fetch_add(1) + 1 == ranks_ * ++turn_) page_->start.store(now() + (crowded_ ? 0 : lead));
    std::int64_t start = 0;
    wait_for([&] { return (start = page_->start.load()) != last_; });
    while (now() < start) {
    }
    return last_ = start;
  }

  // Stores the i-th time of this rank.
  double& mine(std::size_t i) { return times_[static_cast<std::size_t>(rank_) * max_samples + i]; }

  // The i-th times of the slowest rank each; valid after wait().
  std::vector<double> slowest(std::size_t count) const {
    std::vector<double> out(count);
    for (std::size_t r = 0; r < static_cast<std::size_t>(ranks_); ++r)
      for (std::size_t i = 0; i < count; ++i) out[i] = std::max(out[i], times_[r * max_samples + i]);
    return out;
  }

  // The latency of a flag from rank 0 to rank 1 in nanoseconds, which shows how close their cores are at present: the median of several
  // tries, or 0 if they may share a core.
  double flag_time() {
    if (crowded_ || ranks_ < 2) return 0;
    constexpr std::int64_t rounds = 20;
    std::array<double, 7> tries{};
    wait();
    if (rank_ > 1) return 0;
    std::int64_t value = last_;
    for (double& nanoseconds : tries) {
      std::int64_t const begin = now();
      for (std::int64_t i = 0; i < rounds; ++i) {
        ++value;
        if (rank_ == 0) page_->there.store(value, std::memory_order_release);
        auto const& awaited = rank_ == 0 ? page_->back : page_->there;
        wait_for([&] { return awaited.load(std::memory_order_acquire) == value; });
        if (rank_ == 1) page_->back.store(value, std::memory_order_release);
      }
      nanoseconds = static_cast<double>(now() - begin) / (2 * rounds);
    }
    std::ranges::sort(tries);
    return tries[tries.size() / 2];
  }

 private:
  static constexpr std::int64_t lead = 500;

  struct page {
    alignas(64) std::atomic<std::int64_t> arrived;
    alignas(64) std::atomic<std::int64_t> start;
    alignas(64) std::atomic<std::int64_t> there;
    alignas(64) std::atomic<std::int64_t> back;
  };

  // Spinning is bounded in case peers have died, because the conductor cannot reach this rank here.
  template <class Done>
  void wait_for(Done done) {
    std::int64_t until = 0;
    for (std::int64_t i = 1; !done(); ++i) {
      if (crowded_) ::sched_yield();
      else tutti::detail::pause_briefly();
      if (i % 4096 != 0) continue;
      if (until == 0) until = now() + 120'000'000'000;
      if (now() > until) throw std::runtime_error("a rank did not come to the start line within two minutes");
    }
  }

  int rank_, ranks_;
  bool crowded_;
  page* page_ = nullptr;
  double* times_ = nullptr;
  std::int64_t turn_ = 0, last_ = 0;
};

}  // namespace bench
