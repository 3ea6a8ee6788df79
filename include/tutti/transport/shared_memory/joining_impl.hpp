// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/shared_memory/joining.hpp.
#pragma once

#include <atomic>
#include <cstdint>

#include "tutti/core/text.hpp"
#include "tutti/transport/absence.hpp"
#include "tutti/transport/nap.hpp"
#include "tutti/transport/shared_memory/joining.hpp"

namespace tutti::detail {

TUTTI_INLINE joining::joining(mailbox& self, function_ref<bool(int)> lost, acquaintance const& others, countdown& until)
    : self_(self), lost_(lost), others_(others), until_(until) {}

TUTTI_INLINE void joining::join(function_ref<bool()> try_to_fetch) {
  segment const& memory = self_.memory();
  rank_page& own = memory.rank(self_.rank());
  own.status.store(presence::joined, std::memory_order_release);
  self_.wake_all();
  struct leaves_on_failure {
    joining& self;
    bool joined = false;
    ~leaves_on_failure() {
      if (!joined) self.give_up();
    }
  } guard{*this};
  meet([&](int r) { return memory.rank(r).status.load(std::memory_order_acquire) != presence::absent; });
  own.can_fetch.store(try_to_fetch() ? fetching::works : fetching::refused, std::memory_order_release);
  self_.wake_all();
  meet([&](int r) { return memory.rank(r).can_fetch.load(std::memory_order_acquire) != fetching::untried; });
  guard.joined = true;
}

TUTTI_INLINE void joining::give_up() noexcept {
  if (!waited_in_vain_ && !self_.notices().faulty()) refuse(self_.memory(), self_.rank(), others_);
  self_.leave();
}

TUTTI_INLINE void joining::meet(step taken) {
  auto const look = [&] {
    for (int r = 0; r < self_.ranks(); ++r)
      if (!taken(r)) return progress::stuck;
    return progress::done;
  };
  bool const met = wait_until_done(look, self_.waits(), until_, [&](auto const& ready) {
    bool over = false;
    nap_rethrowing(self_, [&] { return ready() || (over = self_.notices().faulty() || gone() >= 0); });
    return !over || is_worthwhile(taken);
  });
  if (met) return;
  waited_in_vain_ = true;
  throw absent_ranks(name_of(self_.rank()), absent(taken), others_.way_out);
}

TUTTI_INLINE bool joining::is_worthwhile(step taken) {
  auto const known = self_.notices().find_fault();
  int const r = known ? known->peer : gone();
  if (r < 0) return true;
  bool all = true;
  for (int other = 0; other < self_.ranks(); ++other) all &= taken(other);
  if (all) return true;  // a rank that is gone joined like all others, and has ended or left since
  if (known) throw refusal(*known);
  if (gave_up(r) && !absent(taken).empty()) return false;
  fault const loss = loss_of(self_.memory(), self_.rank(), r, gave_up(r) ? " gave up" : " ended", others_);
  self_.notices().raise(loss);
  throw refusal(loss);
}

TUTTI_INLINE std::vector<int> joining::absent(step taken) const {
  std::vector<int> out;
  for (int r = 0; r < self_.ranks(); ++r)
    if (!taken(r) && !gave_up(r)) out.push_back(name_of(r));
  return out;
}

TUTTI_INLINE int joining::gone() const {
  int first = -1;
  for (int r = 0; r < self_.ranks() && first < 0; ++r)
    if (gave_up(r)) first = r;
  // Looked for last, because a rank that gives up has seen the loss of another before.
  for (int r = 0; r < self_.ranks(); ++r)
    if (lost_(r) && !gave_up(r)) return r;
  return first;
}

TUTTI_INLINE fault joining::loss_of(segment const& memory, int finder, int rank, char const* what,
                                    acquaintance const& others) {
  int const name = others.name_of(rank);
  std::uint32_t const process = memory.rank(rank).process;  // 0: it ended before it had recorded it
  return {error_code::rank_lost, finder, name,
          detail::join({"rank ", name, process != 0 ? detail::join({" (process ", process, ")"}) : "", what,
                        " before all ranks had joined"})};
}

TUTTI_INLINE void joining::refuse(segment const& memory, int rank, acquaintance const& others) noexcept {
  try {
    board(memory, rank).raise(loss_of(memory, rank, rank, " gave up", others));
  } catch (...) {  // no memory for the text: the others learn only that this rank has left
  }
  memory.rank(rank).status.store(presence::left, std::memory_order_release);
}

TUTTI_INLINE error joining::refusal(fault const& f) const {
  return error({.code = f.code,
                .rank = name_of(self_.rank()),
                .peer = f.peer,
                .what = f.text,
                .way_out = "check the output of that rank"});
}

}  // namespace tutti::detail
