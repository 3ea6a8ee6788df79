// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks tell each other beside their messages: what they call, and the first fault.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tutti/transport/segment.hpp"

namespace tutti {

// A call as a notice board keeps it; word 0 is its fingerprint. What the others mean is the collective layer's.
using call_words = std::array<std::uint64_t, call_record::words>;

struct fault {
  int code, rank, peer;
  std::string text;
};

}  // namespace tutti
