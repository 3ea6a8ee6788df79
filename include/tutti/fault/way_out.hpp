// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a user can do about a fault of a communicator.
#pragma once

#include <string>
#include <string_view>

#include "tutti/core/error.hpp"

namespace tutti::detail {

// In the text of a timeout for which no rank is late.
inline constexpr std::string_view all_have_arrived = "all ranks have arrived";

// `happened`: the text of the fault, which all ranks know. maps_memory: the transport lets ranks read memory of each other.
[[gnu::cold]] std::string way_out_of_fault(error_code code, std::string_view happened, bool maps_memory);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/fault/way_out_impl.hpp"
#endif
