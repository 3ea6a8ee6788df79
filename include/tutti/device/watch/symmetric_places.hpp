// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The places of the buffers of a symmetric device call, encoded in the words of the call and printed in messages.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/core/text.hpp"
#include "tutti/device/model/numbered_place.hpp"
#include "tutti/execute/plan.hpp"
#include "tutti/transport/notice.hpp"

namespace tutti::detail {

inline std::string text_of_place(std::uint64_t word) {
  auto const [buffer, byte] = numbered_place::of(word);
  return join({"byte ", byte, " of registered buffer #", buffer});
}

// Stores places in bits of the call that are 0 for direct calls on devices.
inline void put_places(call_words& call, std::uint64_t in, std::uint64_t out) {
  call[5] = in;
  call[3] |= out << 32;
  call[4] |= out >> 32 << 32;
}
// Removes them again and returns their text; empty for other calls.
inline std::string take_places(call_words& call) {
  if (static_cast<protocol>(call[0] >> 48 & 0xff) != protocol::direct) return {};
  std::uint64_t const in = call[5], out = call[3] >> 32 | call[4] >> 32 << 32;
  call[5] = 0;
  call[3] &= 0xffff'ffff;
  call[4] &= 0xffff'ffff;
  return join({", symmetric, from ", text_of_place(in)}) + (out != 0 ? " to " + text_of_place(out) : "");
}

}  // namespace tutti::detail
