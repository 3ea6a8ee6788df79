// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a user can do about a fault of a communicator.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// maps_memory: the transport lets ranks read memory of each other.
[[gnu::cold]] std::string_view way_out_of_fault(error_code code, circumstance when, bool maps_memory);

// The same for rank_lost, if the ranks cannot shrink.
inline constexpr std::string_view restart_without_rank =
    "check the output of the rank that ended; this communicator is closed, and its ranks cannot shrink(): restart from "
    "a "
    "checkpoint; an MPI with ULFM would let up to 1024 ranks go on";
static_assert(max_ranks == 1024);

// Whether ranks can agree and shrink.
template <transport Transport>
bool can_shrink(Transport const& ranks) noexcept {
  if constexpr (has_levels<Transport>)
    if (ranks.nodes().count() == 1) return true;
  if constexpr (may_survive<Transport>) return ranks.ranks() <= max_ranks && ranks.survives();
  else return holds_votes<Transport>;
}

template <transport Transport>
[[gnu::cold]] std::string_view way_out_over(Transport const& ranks, error_code code, circumstance when) {
  if (code == error_code::rank_lost && !can_shrink(ranks)) return restart_without_rank;
  return way_out_of_fault(code, when, maps_memory<Transport>);
}

// "; ranks are numbered within the group {1, 3}", or nothing if they keep their numbers. `whole`: the same of the communicator from
// which the group comes.
[[gnu::cold]] std::string numbered_within(std::vector<int> const& group, std::string_view whole);

// Sets the text that errors of this group, of its levels and of its watchdog end with.
template <class Engine>
[[gnu::cold]] void number_by(Engine& group, std::string text) {
  if constexpr (requires { group.notices().inside_mpi(); })
    if (group.ranks() > 1) group.notices().inside_mpi().set_numbering(text);
  if constexpr (requires { group.levels->number_by(text); }) group.levels->number_by(text);
  group.numbering = std::move(text);
}

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/fault/way_out_impl.hpp"
#endif
