// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text as a JSON string (RFC 8259).
#pragma once

#include <string>
#include <string_view>

#include "tutti/core/config.hpp"

namespace tutti::detail {

// In quotes, with the characters escaped that JSON does not allow. Bytes that are not UTF-8 become U+FFFD.
[[gnu::cold]] std::string json_string(std::string_view text);
// The same after a name, which includes the punctuation.
[[gnu::cold]] void append_json(std::string& to, char const* name, std::string_view text);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/core/json_impl.hpp"
#endif
