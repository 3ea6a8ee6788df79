// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors of tutti-sim.
#pragma once

#include <string>
#include <utility>

#include "tutti/core/error.hpp"

namespace simulator {

// Throws error: bad_argument.
[[noreturn]] inline void refuse(std::string what, std::string way_out) {
  throw tutti::error({.code = tutti::error_code::bad_argument, .what = std::move(what), .way_out = std::move(way_out)});
}

}  // namespace simulator
