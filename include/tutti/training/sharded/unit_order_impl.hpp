// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/sharded/unit_order.hpp.
#pragma once

#include "tutti/core/config.hpp"
#include "tutti/training/sharded/unit_order.hpp"

namespace tutti::detail {

TUTTI_INLINE void unit_order::note(std::size_t unit) {
  next_[last_] = unit;
  last_ = {last_.second, unit};
}

TUTTI_INLINE std::vector<std::size_t> unit_order::expected(std::size_t most) const {
  std::vector<std::size_t> out;
  for (auto at = last_; out.size() < most;) {
    auto const found = next_.find(at);
    if (found == next_.end()) break;
    out.push_back(found->second);
    at = {at.second, found->second};
  }
  return out;
}

}  // namespace tutti::detail
