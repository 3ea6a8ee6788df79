// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The files that tutti-sim writes.
#pragma once

#include <cstring>
#include <string>

#include <fmt/format.h>

#include "../result_file.hpp"
#include "refuse.hpp"

namespace simulator {

inline void write_picture(std::string const& path, std::string const& svg) {
  if (int const reason = write_result(path, svg); reason != 0)
    refuse(fmt::format("cannot write {}: {}", path, std::strerror(reason)),
           "name a file in an existing folder that you may write to and that has enough space");
  fmt::print("wrote {}\n", path);
}

}  // namespace simulator
