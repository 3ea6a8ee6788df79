// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The nodes of ranks, and the caches that their ranks share.
#pragma once

#include <vector>

#include "tutti/core/nodes.hpp"
#include "tutti/transport/system/caches.hpp"

namespace tutti::detail {

// Whether the ranks of each node share a last-level cache.
[[gnu::cold]] bool share_caches(std::vector<location> const& places, node_map const& nodes);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/nodes_impl.hpp"
#endif
