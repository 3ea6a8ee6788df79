// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a user can do about a fault of a communicator.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// maps_memory: the transport lets ranks read memory of each other.
[[gnu::cold]] std::string_view way_out_of_fault(error_code code, circumstance when, bool maps_memory);

// "; ranks are numbered within the group {1, 3}", or nothing if they keep their numbers. `whole`: the same of the communicator from
// which the group comes.
[[gnu::cold]] std::string numbered_within(std::vector<int> const& group, std::string_view whole);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/fault/way_out_impl.hpp"
#endif
