// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The location of a rank: its node, and its last-level cache.
#pragma once

#include <sched.h>
#include <string>
#include <vector>

#include "tutti/core/config.hpp"
#include "tutti/core/nodes.hpp"

namespace tutti::detail {

inline constexpr int no_cache = -1;

struct location {
  int node = 0;
  int cache = no_cache;  // equal for two ranks of a node if their cores share a last-level cache

  friend constexpr bool operator==(location const&, location const&) = default;
};

// Parses a list of cores as Linux writes it, "0-3,8,10-11".
[[gnu::cold]] cpu_set_t parse_cores(char const* list);

// The cores that this thread may use; none if the system does not say. A cpu_set_t has 1024 bits; on larger machines, core n counts
// as n % 1024.
[[gnu::cold]] cpu_set_t usable_cores();

int lowest_core(cpu_set_t const& cores);

// The last-level cache that all of these cores share, named by its lowest core; no_cache if they use several, or the
// system does not say.
[[gnu::cold]] int last_level_cache(cpu_set_t const& cores, std::string const& folder = "/sys/devices/system/cpu");

// Whether the ranks of each node share a last-level cache.
[[gnu::cold]] bool share_caches(std::vector<location> const& places, node_map const& nodes);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/system/caches_impl.hpp"
#endif
