// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/elastic/roster.hpp.
#pragma once

#include <algorithm>

#include "tutti/training/elastic/roster.hpp"

namespace tutti::detail {

TUTTI_INLINE void roster::note(int number, int rank, training::member_state now, std::string const& why) {
  using training::member, training::member_state;
  if (number < 0) return;
  std::scoped_lock const alone(talking_);
  auto at = std::ranges::find(members_, number, &member::number);
  bool const is_known = at != members_.end();
  if (!is_known) at = members_.insert(at, {number, rank, now});
  // All are healthy at the start; one that comes later is as one that had failed.
  member_state const before = is_known ? at->state : now == member_state::recovering ? member_state::failed : now;
  *at = {number, rank, now};
  if (before != now && report_) report_({*at, before, completed, why});
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
