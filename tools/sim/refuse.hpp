// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors of tutti-sim, and the files that it writes.
#pragma once

#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "../result_file.hpp"
#include "tutti/core/error.hpp"

namespace simulator {

// Throws error: bad_argument.
[[noreturn]] inline void refuse(std::string what, std::string way_out) {
  throw tutti::error({.code = tutti::error_code::bad_argument, .what = std::move(what), .way_out = std::move(way_out)});
}

inline void write_picture(std::string const& path, std::string const& svg) {
  if (int const reason = write_result(path, svg); reason != 0)
    refuse(fmt::format("cannot write {}: {}", path, std::strerror(reason)),
           "name a file in an existing folder that you may write to and that has enough space");
  fmt::print("wrote {}\n", path);
}

}  // namespace simulator
