// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the buffers of a symmetric call on devices lie, as the notice board keeps it and as a person reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tutti/core/text.hpp"
#include "tutti/execute/plan.hpp"
#include "tutti/transport/notice.hpp"

namespace tutti::detail {

// A byte of a registered buffer; 0 stands for none.
constexpr std::uint64_t symmetric_place_word(std::size_t buffer, std::size_t byte) {
  return (static_cast<std::uint64_t>(buffer) + 1) << 40 | byte;
}
inline std::string text_of_place(std::uint64_t word) {
  return join({"byte ", word & 0xff'ffff'ffff, " of registered buffer #", (word >> 40) - 1});
}

// In words of the call that are 0 where it is direct, on a device.
inline void put_places(call_words& call, std::uint64_t in, std::uint64_t out) {
  call[5] = in;
  call[3] |= out << 32;
  call[4] |= out >> 32 << 32;
}
// And out of them again: what is to be said of them; empty for another call.
inline std::string take_places(call_words& call) {
  if (static_cast<protocol>(call[0] >> 48 & 0xff) != protocol::direct) return {};
  std::uint64_t const in = call[5], out = call[3] >> 32 | call[4] >> 32 << 32;
  call[5] = 0;
  call[3] &= 0xffff'ffff;
  call[4] &= 0xffff'ffff;
  return join({", symmetric, from ", text_of_place(in)}) + (out != 0 ? " to " + text_of_place(out) : "");
}

}  // namespace tutti::detail
