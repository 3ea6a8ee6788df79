// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/system/descriptor.hpp.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>
#include <unistd.h>

#include "tutti/core/text.hpp"
#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

TUTTI_INLINE descriptor::~descriptor() {
  if (number_ >= 0) ::close(number_);
}

TUTTI_INLINE void throw_system(std::string_view what, std::string_view way_out, int code) {
  if (code == EMFILE || code == ENFILE) way_out = "raise the limit of open files (ulimit -n)";
  throw error(
      {.code = error_code::system, .what = join({what, ": ", std::strerror(code)}), .way_out = std::string(way_out)});
}

}  // namespace tutti::detail
