// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the fuzzers share. Each source defines take(text), which must not crash, and may throw only what users are promised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

// Ends the fuzzer, which then stores its input.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

void take(std::string const& text);

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  take({reinterpret_cast<char const*>(data), size});
  return 0;
}
