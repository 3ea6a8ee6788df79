// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/bucket_search.hpp.
#pragma once

#include <algorithm>
#include <utility>

#include "tutti/core/config.hpp"
#include "tutti/training/bucket_search.hpp"

namespace tutti::detail {

inline constexpr std::size_t rounds_of_trials = 10, rounds_of_final = 32, wins_in_final = 22;
inline constexpr double clearly_cheaper = 0.98;
inline constexpr std::size_t turns_between_checks = 20;  // of the size that was chosen

template <class T>
T median_of(std::vector<T> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

TUTTI_INLINE bucket_search::bucket_search(training::adaptive_buckets const& range, std::size_t bytes, std::size_t all)
    : steps_(static_cast<std::size_t>(range.steps)) {
  std::size_t const most = std::max(range.least_bytes, std::min(range.most_bytes, all));
  sizes_.push_back(std::clamp(bytes, range.least_bytes, most));
  for (std::size_t size = range.least_bytes;; size = size > most / 4 ? most : size * 4) {
    if (size != sizes_[0]) sizes_.push_back(size);
    if (size == most) break;
  }
  begin();
}

TUTTI_INLINE void bucket_search::begin() {
  trials_.clear();
  for (std::size_t const size : sizes_) trials_.push_back({.bytes = size});
  turns_ = 0;
}

TUTTI_INLINE std::size_t bucket_search::turn() const noexcept {
  std::size_t const round = turns_ / trials_.size(), place = turns_ % trials_.size();
  return round % 2 == 0 ? place : trials_.size() - 1 - place;
}

TUTTI_INLINE bool bucket_search::saw(std::chrono::nanoseconds cost) {
  seen_.push_back(cost);
  return seen_.size() == (settled() ? turns_between_checks * steps_ : steps_);
}

TUTTI_INLINE std::chrono::nanoseconds bucket_search::median() const { return median_of(seen_); }

TUTTI_INLINE void bucket_search::judge(std::chrono::nanoseconds agreed) {
  seen_.clear();
  if (settled()) {
    if (settled_cost_.count() == 0) settled_cost_ = agreed;
    if (agreed > settled_cost_ * 3 / 2) begin();
    return;
  }
  trials_[turn()].costs.push_back(agreed);
  ++turns_;
  if (turns_ % trials_.size() != 0) return;
  std::size_t const rounds = turns_ / trials_.size();
  if (trials_.size() > 2) {
    if (rounds == rounds_of_trials) narrow();
    return;
  }
  std::size_t wins = 0;
  for (std::size_t r = 0; r < rounds; ++r) wins += is_cheaper(trials_[1], r) ? 1u : 0u;
  if (wins == wins_in_final) settle(1);
  else if (rounds - wins > rounds_of_final - wins_in_final) settle(0);
}

TUTTI_INLINE bool bucket_search::is_cheaper(trial const& other, std::size_t round) const {
  return other.costs[round] < clearly_cheaper * std::chrono::duration<double, std::nano>(trials_[0].costs[round]);
}

// The median over the rounds, where 1 is the cost of the first size.
TUTTI_INLINE double bucket_search::relative_cost(trial const& other) const {
  std::vector<double> ratios;
  for (std::size_t r = 0; r < other.costs.size(); ++r)
    ratios.push_back(std::chrono::duration<double>(other.costs[r]) /
                     std::max(trials_[0].costs[r], std::chrono::nanoseconds(1)));
  return median_of(std::move(ratios));
}

TUTTI_INLINE void bucket_search::narrow() {
  std::vector<std::pair<double, std::size_t>> others;
  for (std::size_t i = 1; i < trials_.size(); ++i) others.emplace_back(relative_cost(trials_[i]), trials_[i].bytes);
  std::ranges::sort(others);
  others.resize(others.size() / 2);
  std::vector<trial> left{{.bytes = trials_[0].bytes}};
  for (auto const& [cost, size] : others)
    if (cost < 1) left.push_back({.bytes = size});
  if (left.size() == 1) return settle(0);
  trials_ = std::move(left);
  turns_ = 0;
}

TUTTI_INLINE void bucket_search::settle(std::size_t chosen) {
  settled_cost_ = median_of(trials_[chosen].costs);
  trials_ = {{.bytes = trials_[chosen].bytes}};
  turns_ = 0;
  std::swap(sizes_[0], *std::ranges::find(sizes_, trials_[0].bytes));
}

}  // namespace tutti::detail
