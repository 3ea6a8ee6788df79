// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of core/nodes.hpp.
#pragma once

#include <algorithm>

#include "tutti/core/nodes.hpp"
#include "tutti/core/text.hpp"

namespace tutti::detail {

TUTTI_INLINE node_map::node_map(std::vector<int> const& keys) {
  std::vector<int> sorted = keys;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  constexpr std::size_t unnumbered = static_cast<std::size_t>(-1);
  std::vector<std::size_t> node_of_key(sorted.size(), unnumbered);
  places_.reserve(keys.size());
  for (int rank = 0; rank < static_cast<int>(keys.size()); ++rank) {
    int const key = keys[static_cast<std::size_t>(rank)];
    auto const at = std::lower_bound(sorted.begin(), sorted.end(), key) - sorted.begin();
    std::size_t& node = node_of_key[static_cast<std::size_t>(at)];
    if (node == unnumbered) {
      node = members_.size();
      members_.emplace_back();
    }
    places_.push_back({static_cast<int>(node), static_cast<int>(members_[node].size())});
    consecutive_ = consecutive_ && node + 1 == members_.size();
    members_[node].push_back(rank);
  }
  for (auto const& m : members_) even_ = even_ && m.size() == members_[0].size();
}

TUTTI_INLINE int node_map::largest() const noexcept {
  std::size_t out = 0;
  for (auto const& m : members_) out = std::max(out, m.size());
  return static_cast<int>(out);
}

TUTTI_INLINE std::string node_map::text(std::string_view noun) const {
  std::size_t least = members_[0].size(), most = least;
  for (auto const& m : members_) least = std::min(least, m.size()), most = std::max(most, m.size());
  std::string out = join({count(), " ", noun, count() == 1 ? " of " : "s of ", least});
  if (!even_) append(out, {" to ", most});
  return out += most == 1 ? " rank" : " ranks";
}

}  // namespace tutti::detail
