// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/shared_memory/mailbox.hpp.
#pragma once

#include <chrono>
#include <ctime>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tutti/core/background.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/absence.hpp"
#include "tutti/transport/shared_memory/mailbox.hpp"

namespace tutti::detail {

TUTTI_INLINE mailbox::mailbox(int rank, int ranks, int tracks)
    : packet_rounds(rank, ranks),
      outgoing_(static_cast<std::size_t>(ranks * tracks)),
      incoming_(static_cast<std::size_t>(ranks * tracks)) {}

TUTTI_INLINE std::string mailbox::describe(int peer) const {
  return join({"rank ", peer, " (process ", segment_.rank(peer).process, ")"});
}

TUTTI_INLINE void mailbox::attach(segment s, int tracks, readable_memory const& reach, patience how) {
  reach_ = reach;
  waits_ = how;
  packet_rounds::attach(s, crowded() ? far_sets_sharing_cores : far_sets);
  for (int t = 0; t < tracks; ++t)
    for (int r = 0; r < ranks_; ++r) {
      outgoing(r, t).channel = &segment_.between(rank_, r, t);
      incoming(r, t).channel = &segment_.between(r, rank_, t);
      outgoing(r, t).slots = incoming(r, t).slots = slots_of(ranks_, t);
    }
}

TUTTI_INLINE void mailbox::leave() noexcept {
  segment_.rank(rank_).status.store(presence::left, std::memory_order_release);
  wake_all();
}

TUTTI_INLINE void mailbox::report_vote(int peer, function_ref<bool(int)> lost) const {
  auto const died = [&](int r) { return lost(r) && !left(r); };
  int cause = -1;
  for (int r = ranks_ - 1; r >= 0; --r)
    if (died(r) || (left(r) && (cause < 0 || !died(cause)))) cause = r;
  throw rank_votes(rank_, peer, cause, cause >= 0 && left(cause));
}

TUTTI_INLINE bool mailbox::share_core(void const* self) noexcept {
  mailbox const& m = *static_cast<mailbox const*>(self);
  if (m.ranks_ == 1) return false;                                     // it has no memory to note its core in
  auto const core = static_cast<std::uint32_t>(::sched_getcpu() + 1);  // 0: unknown
  std::atomic<std::uint32_t>& noted = m.segment_.rank(m.rank_).core;
  if (noted.load(std::memory_order_relaxed) != core) noted.store(core, std::memory_order_relaxed);
  if (core == 0) return false;
  for (int r = 0; r < m.ranks_; ++r)
    if (r != m.rank_ && m.segment_.rank(r).core.load(std::memory_order_relaxed) == core) return true;
  return false;
}

TUTTI_INLINE void mailbox::sleep_until_rung(std::uint32_t heard, bool briefly) noexcept {
  constexpr std::chrono::microseconds short_nap{50};
  briefly |= background_jobs.load(std::memory_order_relaxed) != 0;
  std::timespec const time{0, std::chrono::nanoseconds(briefly ? short_nap : nap_length).count()};
  ::syscall(SYS_futex, &segment_.rank(rank_).bell, FUTEX_WAIT, heard, &time, nullptr, 0);
}

TUTTI_INLINE void mailbox::wake(rank_page& other) noexcept {
  other.bell.fetch_add(1, std::memory_order_relaxed);
  ::syscall(SYS_futex, &other.bell, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

TUTTI_INLINE void mailbox::skip(std::uint64_t count) noexcept {
  for (sender& out : outgoing_) {
    out.published = out.consumed = count;
    out.used.fill(count);
  }
  for (receiver& in : incoming_) {
    in.taken = count;
    if (in.channel != nullptr) in.channel->consumed.store(count, std::memory_order_release);
  }
  skip_rounds(count);
}

}  // namespace tutti::detail
