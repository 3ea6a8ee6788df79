// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks tell each other beside their messages: what they call, and the first fault.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tutti/transport/segment.hpp"

namespace tutti {

// A call as a notice board keeps it; word 0 is its fingerprint, the last is where in the program it is made, or 0. What they
// mean is the collective layer's.
using call_words = std::array<std::uint64_t, call_record::words>;
inline constexpr std::size_t place_word = call_record::words - 1;

inline call_words at_place(call_words call, std::uint64_t place) noexcept {
  call[place_word] = place;
  return call;
}

struct fault {
  int code, rank, peer;
  std::string text;
};

}  // namespace tutti
