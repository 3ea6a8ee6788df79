// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers and switches in the environment. A variable that holds something else is reported, and counts as unset: an MPI program must not
// fail for it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <limits>
#include <string_view>

#include "tutti/core/environment.hpp"
#include "tutti/core/text.hpp"

namespace interpose {

inline std::uint64_t number_from_environment(char const* name, std::uint64_t if_unset) {
  std::string_view const text = tutti::detail::environment_variable(name);
  if (text.empty()) return if_unset;
  std::uint64_t out = 0;
  if (tutti::detail::read_number(text, std::numeric_limits<std::int32_t>::max(), out) == text.size()) return out;
  std::fprintf(stderr, "tutti: %s=%s is not a whole number up to 2147483647, so %llu is used; correct or unset it\n",
               name, text.data(), static_cast<unsigned long long>(if_unset));
  return if_unset;
}

// Whether it is 1; 0 and unset mean no.
inline bool is_switched_on(char const* name) {
  std::string_view const text = tutti::detail::environment_variable(name);
  if (text != "" && text != "0" && text != "1")
    std::fprintf(stderr, "tutti: %s=%s is neither 0 nor 1, so 0 is used; correct or unset it\n", name, text.data());
  return text == "1";
}

}  // namespace interpose
