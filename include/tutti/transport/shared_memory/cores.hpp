// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cores of the ranks of a segment: whether there is one for each rank, which decides how ranks wait, and which
// caches they share.
#pragma once

#include <cstdint>
#include <vector>

#include "tutti/core/wait.hpp"
#include "tutti/transport/segment.hpp"
#include "tutti/transport/system/caches.hpp"

namespace tutti::detail {

// Identifies the threads that a yield of this process reaches.
[[gnu::cold]] std::uint64_t time_group();

// Records the cores that this rank may run on, and the group whose threads it yields to. All ranks must do so, because a launcher
// may have bound each to a different core, or started each in a session or container of its own.
void note_cores(rank_page& self);

// `crowded`: the ranks are a group of others that live, too, and that have fewer cores than ranks.
patience patience_for(segment const& s, int ranks, bool crowded = false);

[[gnu::cold]] std::vector<location> locations_in(segment const& s, int ranks);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/shared_memory/cores_impl.hpp"
#endif
