// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When the lost ranks of an elastic job are replaced.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "processes.hpp"

namespace launcher {

class restarts {
 public:
  restarts(int ranks, int most) : all_(static_cast<std::size_t>(ranks)), most_(most) {}

  // Returns whether this rank is replaced, which only so many are.
  bool plan(std::size_t rank) {
    if (planned_ == most_) return false;
    ++planned_;
    one& r = all_[rank];
    r.time =
        clock_type::now() + std::min<clock_type::duration>(first_pause * (1 << std::min(r.planned, 10)), longest_pause);
    ++r.planned;
    return true;
  }
  // The system had no room for the process.
  void postpone(std::size_t rank) { all_[rank].time = clock_type::now() + pause_without_room; }
  void cancel() {
    for (one& r : all_) r.time.reset();
  }

  bool any() const {
    return std::ranges::any_of(all_, [](one const& r) { return r.time.has_value(); });
  }
  std::optional<clock_type::time_point> next() const {
    std::optional<clock_type::time_point> out;
    for (one const& r : all_)
      if (r.time && (!out || *r.time < *out)) out = r.time;
    return out;
  }
  // Removes those whose time has come from the plan.
  std::vector<std::size_t> take_due() {
    std::vector<std::size_t> out;
    auto const now = clock_type::now();
    for (std::size_t r = 0; r < all_.size(); ++r) {
      if (!all_[r].time || now < *all_[r].time) continue;
      all_[r].time.reset();
      out.push_back(r);
    }
    return out;
  }

 private:
  static constexpr std::chrono::milliseconds first_pause{100};  // doubled each time for the same rank
  static constexpr std::chrono::seconds longest_pause{10}, pause_without_room{1};

  struct one {
    int planned = 0;  // so far
    std::optional<clock_type::time_point> time{};
  };

  std::vector<one> all_;  // of each rank
  int most_, planned_ = 0;
};

}  // namespace launcher
