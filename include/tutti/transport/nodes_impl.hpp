// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/nodes.hpp.
#pragma once

#include "tutti/transport/nodes.hpp"

namespace tutti::detail {

TUTTI_INLINE bool share_caches(std::vector<location> const& places, node_map const& nodes) {
  for (int node = 0; node < nodes.count(); ++node)
    for (int const m : nodes.members(node)) {
      int const cache = places[static_cast<std::size_t>(m)].cache;
      if (cache == no_cache || cache != places[static_cast<std::size_t>(nodes.members(node)[0])].cache) return false;
    }
  return true;
}

}  // namespace tutti::detail
