// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What this process holds of the system.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tutti::testing {

inline std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

// The mappings of tutti's shared memory, one for each communicator.
inline int segments() {
  int out = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) out += line.find("/memfd:tutti") != line.npos ? 1 : 0;
  return out;
}

}  // namespace tutti::testing
