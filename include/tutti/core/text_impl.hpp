// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of core/text.hpp.
#pragma once

#include <cstddef>
#include <cstdio>

#include "tutti/core/text.hpp"

namespace tutti::detail {

TUTTI_INLINE void text_part::write(long long n) {
  view_ = {number_, static_cast<std::size_t>(std::snprintf(number_, sizeof number_, "%lld", n))};
}
TUTTI_INLINE void text_part::write(unsigned long long n) {
  view_ = {number_, static_cast<std::size_t>(std::snprintf(number_, sizeof number_, "%llu", n))};
}
TUTTI_INLINE void text_part::write(double n) {
  view_ = {number_, static_cast<std::size_t>(std::snprintf(number_, sizeof number_, "%g", n))};
}

TUTTI_INLINE std::string join(std::initializer_list<text_part> parts) {
  std::string out;
  for (text_part const& part : parts) out += part.view();
  return out;
}

}  // namespace tutti::detail
