// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/nodes.hpp.
#pragma once

#include <algorithm>

#include "tutti/core/text.hpp"
#include "tutti/transport/nodes.hpp"

namespace tutti::detail {

TUTTI_INLINE node_map::node_map(std::vector<int> const& keys) {
  std::vector<int> known;
  for (int rank = 0; rank < static_cast<int>(keys.size()); ++rank) {
    int const key = keys[static_cast<std::size_t>(rank)];
    auto const node = static_cast<std::size_t>(std::find(known.begin(), known.end(), key) - known.begin());
    if (node == known.size()) {
      known.push_back(key);
      members_.emplace_back();
    }
    places_.push_back({static_cast<int>(node), static_cast<int>(members_[node].size())});
    consecutive_ = consecutive_ && node + 1 == members_.size();
    members_[node].push_back(rank);
  }
  for (auto const& m : members_) even_ = even_ && m.size() == members_[0].size();
}

TUTTI_INLINE std::string node_map::text(std::string_view noun) const {
  std::size_t least = members_[0].size(), most = least;
  for (auto const& m : members_) least = std::min(least, m.size()), most = std::max(most, m.size());
  std::string out = join({count(), " ", noun, count() == 1 ? " of " : "s of ", least});
  if (!even_) out += join({" to ", most});
  return out += most == 1 ? " rank" : " ranks";
}

TUTTI_INLINE bool share_caches(std::vector<location> const& places, node_map const& nodes) {
  for (int node = 0; node < nodes.count(); ++node)
    for (int const m : nodes.members(node)) {
      int const cache = places[static_cast<std::size_t>(m)].cache;
      if (cache == no_cache || cache != places[static_cast<std::size_t>(nodes.members(node)[0])].cache) return false;
    }
  return true;
}

}  // namespace tutti::detail
