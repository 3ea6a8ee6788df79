// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a user can do about a fault of a communicator.
#pragma once

#include <string_view>

#include "tutti/core/error.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// maps_memory: the transport lets ranks read memory of each other.
[[gnu::cold]] std::string_view way_out_of_fault(error_code code, circumstance when, bool maps_memory);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/fault/way_out_impl.hpp"
#endif
