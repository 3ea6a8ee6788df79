// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a user can do about a fault of a communicator.
#pragma once

#include <string_view>

#include "tutti/core/error.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// maps_memory: the transport lets ranks read memory of each other.
[[gnu::cold]] std::string_view way_out_of_fault(error_code code, circumstance when, bool maps_memory);

// The same for rank_lost, if the ranks cannot shrink.
inline constexpr std::string_view restart_without_rank =
    "check the output of the rank that ended; this communicator is closed, and its ranks cannot shrink(), which needs "
    "an MPI with fault tolerance (ULFM) and at most 1024 ranks: restart from a checkpoint";
static_assert(max_ranks == 1024);

template <transport Transport>
[[gnu::cold]] std::string_view way_out_over(Transport const& ranks, error_code code, circumstance when) {
  if (code == error_code::rank_lost && !can_shrink(ranks)) return restart_without_rank;
  return way_out_of_fault(code, when, maps_memory<Transport>);
}

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/fault/way_out_impl.hpp"
#endif
