// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/elastic/roster.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "tutti/core/error.hpp"
#include "tutti/training/elastic/roster.hpp"

namespace tutti::detail {

TUTTI_INLINE void roster::note(int number, int rank, training::member_state now, std::string const& why) {
  using training::member, training::member_state;
  std::scoped_lock const alone(talking_);
  auto at = std::ranges::find(members_, number, &member::number);
  bool const is_known = at != members_.end();
  if (!is_known) at = members_.insert(at, {number, rank, now});
  // All are healthy at the start; one that comes later is as one that had failed.
  member_state const before = is_known ? at->state : now == member_state::recovering ? member_state::failed : now;
  *at = {number, rank, now};
  if (before == now || !report_) return;
  training::transition const change{*at, before, completed, why};
  try {
    report_(change);
  } catch (...) {
    if (!trouble_) trouble_ = std::current_exception();
  }
}

TUTTI_INLINE void roster::expect_reported() {
  std::scoped_lock const alone(talking_);
  if (std::exception_ptr const thrown = std::exchange(trouble_, nullptr)) std::rethrow_exception(thrown);
}

TUTTI_INLINE void roster::set_numbers(std::vector<int> numbers) {
  std::scoped_lock const alone(talking_);
  numbers_ = std::move(numbers);
}

TUTTI_INLINE void roster::begin(int ranks) {
  std::vector<int> numbers(static_cast<std::size_t>(ranks));
  std::iota(numbers.begin(), numbers.end(), 0);
  set_numbers(std::move(numbers));
}

TUTTI_INLINE void roster::append(std::vector<int> const& numbers) {
  std::scoped_lock const alone(talking_);
  numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
}

TUTTI_INLINE void roster::welcome(std::vector<int> numbers) {
  set_numbers(std::move(numbers));
  for (std::size_t r = 0; r < numbers_.size(); ++r)
    note(numbers_[r], static_cast<int>(r), training::member_state::healthy, "");
}

TUTTI_INLINE std::string text_of_loss(std::exception_ptr const& why) {
  try {
    if (why) std::rethrow_exception(why);
  } catch (error const& e) {
    return e.happened();
  }
  return "its end was noticed by another rank";
}

TUTTI_INLINE void roster::lose_all_but(std::vector<int> const& survivors, std::exception_ptr const& why) {
  std::vector<int> left;
  for (std::size_t r = 0; r < numbers_.size(); ++r) {
    int const rank = static_cast<int>(r);
    if (std::ranges::binary_search(survivors, rank)) left.push_back(numbers_[r]);
    else note(numbers_[r], rank, training::member_state::failed, text_of_loss(why));
  }
  set_numbers(std::move(left));
}

TUTTI_INLINE void roster::suspect(int rank, bool suspected) {
  std::scoped_lock const alone(talking_);
  note(numbers_[static_cast<std::size_t>(rank)], rank,
       suspected ? training::member_state::suspected : training::member_state::healthy,
       suspected ? "other ranks wait for it" : "");
}

TUTTI_INLINE std::vector<training::member> roster::members() const {
  std::scoped_lock const alone(talking_);
  std::vector<training::member> out = members_;
  std::ranges::sort(out, {}, &training::member::number);
  return out;
}

TUTTI_INLINE std::vector<int> roster::failed() const {
  std::vector<int> out;
  for (training::member const& one : members())
    if (one.state == training::member_state::failed) out.push_back(one.number);
  return out;
}

}  // namespace tutti::detail
