// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processes that join a communicator which exists already.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/launch/place.hpp"
#include "tutti/launch/usual.hpp"
#include "tutti/transport/shared_memory/shm.hpp"
#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

struct newcomers_of;

// What rank 0 tells a newcomer.
struct invitation {
  static constexpr std::uint64_t sign = 0x6a6f696e7475;
  std::uint64_t sender = sign;
  std::uint64_t layout = 0;   // of the segment
  std::uint64_t word = 0;     // grow_options::word
  std::uint64_t meeting = 0;  // no two meetings have the same
  std::int64_t within = 0;    // nanoseconds that the meeting may take
  std::int32_t rank = 0,
               ranks = 0;  // no ranks: nobody will ask this process to join, because what it waits for is over
};

// A newcomer, as the ranks see it.
struct newcomer {
  int number;
  descriptor connection;
};

// Asks whether a newcomer of this number waits. Takes a system call, and does not wait.
[[gnu::cold]] std::optional<newcomer> find_newcomer(std::string const& job, int number);

// Tells a newcomer that what it waits for is over. It may have gone meanwhile.
[[gnu::cold]] void turn_away(newcomer const& one);

// The ranks of `comm` and the newcomers become one communicator: newcomers follow the others, in their order at rank 0, the only
// rank that passes them. `next` is the same on all ranks, but for the rank. All ranks of `comm` call it; one that does not, and votes
// in the next agreement instead, or ends, makes the others throw. Afterwards, each rank of `comm` votes on whether it has
// succeeded.
// Throws error: timeout, rank_lost, rank_left, system, or the fault of `comm`.
[[gnu::cold]] communicator<shm> admit(communicator<shm>& comm, std::string const& job, invitation next,
                                      std::vector<newcomer> const& newcomers);

// In the process that joins: others find it while this exists.
class open_door {
 public:
  // Throws error: system, as where another process has the number.
  [[gnu::cold]] open_door(std::string job, int number);

  // Waits until rank 0 invites this process. `failure`: why the last meeting failed, if there was one.
  // Throws error: timeout; bad_argument if rank 0 turns it away; mismatch.
  [[gnu::cold]] invitation wait(countdown& until, std::string const& failure = {});
  // Throws error as admit does; wait again then.
  [[gnu::cold]] communicator<shm> join_as(invitation const& invited);

 private:
  // The last of the invitations that have arrived; its connection becomes host_.
  [[gnu::cold]] std::optional<invitation> take_invitation(std::vector<bool> const& readable);

  std::string job_;
  descriptor listener_;
  std::vector<descriptor> finders_;  // processes that have found this one, and may invite it; the latest is last
  descriptor host_;                  // the one that has
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/launch/newcomers_impl.hpp"
#endif
