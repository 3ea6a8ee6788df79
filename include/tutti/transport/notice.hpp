// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Notices: the information about ranks' current calls and faults that travels beside messages.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tutti/core/error.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// A call as a notice board stores it. Word 0 is its fingerprint, the last one its call site or 0; fault/call_record.hpp
// defines the others.
using call_words = std::array<std::uint64_t, call_record::words>;
inline constexpr std::size_t site_word = call_record::words - 1;

inline call_words at_site(call_words call, std::uint64_t site) noexcept {
  call[site_word] = site;
  return call;
}

struct fault {
  error_code code;
  int rank, peer;
  std::string text;
  circumstance when = circumstance::usual;
};

// Why a rank leaves while others still make calls.
struct leaving_reason {
  circumstance when = circumstance::usual;  // refused or exception; usual: it has given none
  std::string text{};                       // of a refused call: what is wrong with it, and where it is
};

// What make() returns; `brief` if there is no memory for that. So brief a string allocates nothing.
template <class Make, std::size_t Length>
[[gnu::cold]] std::string text_or(Make&& make, char const (&brief)[Length]) noexcept {
  static_assert(Length <= 16, "longer strings allocate");
  try {
    return make();
  } catch (...) {
    return brief;
  }
}

// Waits for the text of a fault that has been raised: the rank that found it may still be writing it, and may be
// stopped or have ended meanwhile. find() returns an optional fault, nap() sleeps briefly.
template <class Find, class Nap>
[[gnu::cold]] fault await_fault(Find&& find, Nap&& nap) {
  auto const until = deadline::after(std::chrono::seconds(10));
  std::optional<fault> found = find();
  for (; !found && !until.passed(); found = find()) nap();
  if (found) return *std::move(found);
  return {error_code::rank_lost, -1, -1, "a rank ended while it reported a fault"};
}

}  // namespace tutti::detail
