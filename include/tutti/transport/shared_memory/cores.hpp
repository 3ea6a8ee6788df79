// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cores of the ranks of a segment: whether each has one, which decides how they wait, and by which caches they are.
#pragma once

#include <vector>

#include "tutti/core/wait.hpp"
#include "tutti/transport/segment.hpp"
#include "tutti/transport/system/caches.hpp"

namespace tutti::detail {

// Writes down where this rank may run. A launcher may have bound every rank to a core of its own, so one rank's view
// is not enough.
void note_cores(rank_page& self);

patience patience_for(segment const& s, int ranks);

[[gnu::cold]] std::vector<location> locations_in(segment const& s, int ranks);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/shared_memory/cores_impl.hpp"
#endif
