// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks tell each other beside their messages: what they call, and the first fault.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tutti/core/error.hpp"
#include "tutti/core/wait.hpp"
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

// The fault that a rank has found and may still be writing down, while its process is stopped; if it has ended instead, that.
// find() gives an optional fault, nap() sleeps for a while.
template <class Find, class Nap>
[[gnu::cold]] fault await_fault(Find&& find, Nap&& nap) {
  auto const until = deadline::after(std::chrono::seconds(10));
  std::optional<fault> found = find();
  for (; !found && !until.passed(); found = find()) nap();
  if (found) return *std::move(found);
  return {static_cast<int>(error_code::rank_lost), -1, -1, "a rank ended while it reported a fault"};
}

}  // namespace tutti
