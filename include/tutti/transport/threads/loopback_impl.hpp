// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/threads/loopback.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <sys/mman.h>

#include "tutti/core/error.hpp"
#include "tutti/core/random.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/absence.hpp"
#include "tutti/transport/shared_memory/cores.hpp"
#include "tutti/transport/threads/loopback.hpp"

namespace tutti {

TUTTI_INLINE std::unique_ptr<loopback> loopback::subgroup(std::vector<int> const& members, detail::countdown& until,
                                                          bool others_live) {
  auto const meeting = hub_->come(members, rank(), others_live && crowded());
  wake_all();
  auto const look = [&] { return meeting->complete ? detail::progress::done : detail::progress::stuck; };
  int gone = -1, voter = -1;
  bool const met = detail::wait_until_done(look, waits(), until, [&](auto const& ready) {
    nap(ready);
    for (int const peer : hub_->absent(*meeting)) {
      if (memory().rank(peer).status.load(std::memory_order_acquire) == detail::presence::left) gone = peer;
      if (votes().awaits_vote(peer)) voter = peer;
    }
    return gone < 0 && voter < 0;
  });
  if (!met)
    if (auto const absent = hub_->give_up(*meeting, rank()); !absent.empty()) {
      if (gone >= 0) throw detail::rank_gone(rank(), gone);
      if (voter >= 0) report_vote(voter, [](int) { return false; });
      throw detail::absent_ranks(rank(), absent, detail::members_must_join);
    }
  int const own = static_cast<int>(std::find(members.begin(), members.end(), rank()) - members.begin());
  return std::make_unique<loopback>(meeting->made, own);
}

TUTTI_INLINE loopback::loopback(std::shared_ptr<hub> shared, int rank)
    : detail::mailbox(rank, shared->ranks(), shared->tracks()), hub_(std::move(shared)) {
  detail::segment const& memory = hub_->memory();
  attach(memory, hub_->tracks(), {.end = std::numeric_limits<std::uintptr_t>::max()},
         detail::patience_for(memory, ranks(), hub_->crowded()));
  allow_pulls(true);  // all memory is addressable, so nothing is ever fetched
  memory.rank(rank).status.store(detail::presence::joined, std::memory_order_release);
}

TUTTI_INLINE loopback::hub::hub(int ranks, int tracks, bool crowded)
    : ranks_(ranks), tracks_(tracks), crowded_(crowded), memory_(nullptr, ranks, tracks, 0) {
  std::size_t const bytes = memory_.bytes();
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    throw error({.code = error_code::system,
                 .what = detail::join({"no address space for ", ranks, " ranks: mmap of ", bytes, " bytes failed, ",
                                       std::strerror(errno)}),
                 .way_out = "use fewer ranks, or raise the limit of virtual memory (ulimit -v)"});
  memory_ = detail::segment(static_cast<std::byte*>(base), ranks, tracks, 0);
  memory_.header().identity = detail::random_number();
  detail::note_cores(memory_.rank(0));
}

TUTTI_INLINE loopback::hub::~hub() { ::munmap(memory_.base(), memory_.bytes()); }

TUTTI_INLINE std::shared_ptr<loopback::hub::meeting> loopback::hub::come(std::vector<int> const& members, int rank,
                                                                         bool crowded) {
  std::scoped_lock const lock(guard_);
  std::shared_ptr<meeting> out;
  for (auto const& known : meetings_)
    if (known->members == members) out = known;
  if (!out) {
    out.reset(new meeting{members, std::make_shared<hub>(int(members.size()), tracks_, crowded)});
    meetings_.push_back(out);
  }
  std::erase(out->absent, rank);
  if (!out->absent.empty()) return out;
  std::erase(meetings_, out);
  out->complete = true;
  return out;
}

TUTTI_INLINE std::vector<int> loopback::hub::absent(meeting const& m) {
  std::scoped_lock const lock(guard_);
  return m.absent;
}

TUTTI_INLINE std::vector<int> loopback::hub::give_up(meeting& m, int rank) {
  std::scoped_lock const lock(guard_);
  if (m.complete) return {};
  std::vector<int> const out = m.absent;
  m.absent.push_back(rank);
  if (m.absent.size() == m.members.size())
    std::erase_if(meetings_, [&](auto const& other) { return other.get() == &m; });
  return out;
}

}  // namespace tutti
