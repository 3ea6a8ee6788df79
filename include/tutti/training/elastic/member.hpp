// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The members of elastic training, and what is known of each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tutti/core/config.hpp"

namespace tutti::training {

// What the others know of a member.
enum class member_state : std::uint8_t {
  healthy,     // takes part
  suspected,   // others have waited for it longer than elastic_options::suspect_after, or its process is stopped
  failed,      // has ended, or the others have excluded it
  recovering,  // has joined, and is about to receive the state
};

// The name of a state, such as "suspected".
[[gnu::cold]] std::string_view name(member_state state);

// A process of the job. Its number stays the same when ranks are renumbered, and a process that replaces a lost one takes over
// its number.
struct member {
  int number = 0;
  int rank = 0;  // now; of a member that has failed: its last one
  member_state state = member_state::healthy;

  friend bool operator==(member const&, member const&) = default;
};

// A member was in one state and is in another.
struct transition {
  member who;  // after it
  member_state before = member_state::healthy;
  std::uint64_t step = 0;  // completed steps of the rank that reports it
  std::string why{};       // may be empty

  // "member 2 (rank 2), healthy -> failed, after step 30: ..."
  [[gnu::cold]] std::string text() const;
};

}  // namespace tutti::training

#if !defined(TUTTI_COMPILED)
#include "tutti/training/elastic/member_impl.hpp"
#endif
