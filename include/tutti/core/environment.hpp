// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Environment variables that are text, or 0 or 1.
#pragma once

#include <string_view>

#include "tutti/core/config.hpp"

namespace tutti::detail {

// Empty if it is not set.
[[gnu::cold]] std::string_view environment_variable(char const* name);

// Whether it is 1; `otherwise` if it is not set. Throws error: bad_argument, if it is neither 0 nor 1. `way_out` follows "set it to".
[[gnu::cold]] bool environment_flag(char const* name, bool otherwise, char const* way_out);

// Throws error: bad_argument. "NAME="text" is not `what`; set it to `way_out`"
[[noreturn, gnu::cold]] void refuse_variable(char const* name, std::string_view text, char const* what,
                                             char const* way_out);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/core/environment_impl.hpp"
#endif
