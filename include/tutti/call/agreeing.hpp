// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One agreement of the ranks of a communicator, some of which may be gone.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/call/engine.hpp"
#include "tutti/call/levels.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/ballot.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti::detail {

// One agreement of the ranks of a group, from the view of this rank.
template <holds_votes Transport>
class agreeing {
 public:
  // `exclude_after`: when ranks that have not voted count as gone; 0 if never.
  agreeing(engine<Transport>& on, motion subject, std::uint32_t flags, std::chrono::nanoseconds exclude_after)
      : engine_(on),
        votes_(on.transport().votes()),
        number_(++on.agreements),
        motion_(subject),
        exclude_after_(exclude_after),
        gone_(ranks()) {
    votes_.cast(number_, {subject, flags});
    on.transport().wake_all();
  }

  // Throws error: timeout, mismatch, excluded.
  resolution run(std::source_location where) {
    auto& transport = engine_.transport();
    look_for_gone();
    auto const decided = [&] { return votes_.decision(number_) ? progress::done : progress::stuck; };
    bool const excludes = exclude_after_.count() > 0;
    if (!wait_for([&] { return poll(); }, excludes ? exclude_after_ : timeout())) {
      auto const late = awaited();
      if (excludes) exclude(late);
      if (late.empty() || excludes) count();
      else propose(resolution::timed_out, late);
      wait_for(decided, timeout());  // over messages it takes a while, and for ever if a rank stalls in the middle
    }
    resolution const out = votes_.decision(number_).value_or(resolution{resolution::timed_out, 0, {}, {}, others()});
    transport.wake_all();
    engine_.agreements = std::max(number_, votes_.last_decided(number_));
    if (out.outcome == resolution::agreed) return settle(out, where);
    bool const all_to_blame = out.outcome == resolution::timed_out && out.named.size() > 1;
    int const peer = all_to_blame || out.named.empty() ? -1 : out.named.front();
    std::string const who = list_of(out.named);
    if (out.outcome == resolution::timed_out)
      throw error({.code = error_code::timeout,
                   .rank = engine_.rank(),
                   .peer = peer,
                   .what = join({"ranks that are alive did not join agreement #", number_, " in time: ", who}),
                   .way_out = "all survivors must call agree or shrink; find out why these ranks are late, or raise "
                              "TUTTI_TIMEOUT",
                   .where = where});
    throw error({.code = error_code::mismatch,
                 .rank = engine_.rank(),
                 .peer = peer,
                 .what = join({"some ranks call agree and others call shrink; on one side are: ", who}),
                 .way_out = "all survivors must call agree and shrink in the same order",
                 .where = where});
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(engine_.ranks()); }
  std::chrono::nanoseconds timeout() const { return engine_.environment.timeout; }

  template <class Poll>
  bool wait_for(Poll const& until_done, std::chrono::nanoseconds limit) {
    auto& transport = engine_.transport();
    return wait_until_done(until_done, transport.waits(), countdown(limit), [&](auto const& ready) {
      transport.nap(ready);
      engine_.record_where_asked();
      look_for_gone();
    });
  }
  progress poll() {
    if (votes_.decision(number_)) return progress::done;
    if (!awaited().empty()) return progress::stuck;
    look_for_gone();
    count();
    return votes_.decision(number_) ? progress::done : progress::stuck;
  }
  void look_for_gone() {
    auto& transport = engine_.transport();
    for (int r = 0; r < engine_.ranks(); ++r)
      if (r != engine_.rank() && (transport.left(r) || transport.lost(r) || was_excluded(r)))
        gone_[static_cast<std::size_t>(r)] = true;
  }
  bool was_excluded(int r) const noexcept {
    if constexpr (excludes_ranks<Transport>) return engine_.transport().excluded(r);
    else return false;
  }
  // Their votes no longer count, even if they arrive before the decision.
  void exclude(std::vector<int> const& late) {
    for (int const r : late) gone_[static_cast<std::size_t>(r)] = excluded_[static_cast<std::size_t>(r)] = true;
  }
  // After a shrink, the ranks that are gone include those that the survivors exclude, perhaps this one.
  resolution const& settle(resolution const& decided, std::source_location where) {
    if constexpr (excludes_ranks<Transport>)
      if (motion_ == motion::shrink) engine_.transport().exclude(decided.gone);
    engine_.expect_included(where);
    return decided;
  }
  std::vector<int> awaited() const {
    std::vector<int> out;
    for (int r = 0; r < engine_.ranks(); ++r)
      if (!gone_[static_cast<std::size_t>(r)] && !votes_.of(r, number_)) out.push_back(r);
    return out;
  }
  std::vector<int> others() const {
    std::vector<int> out;
    for (int r = 0; r < engine_.ranks(); ++r)
      if (!gone_[static_cast<std::size_t>(r)] && r != engine_.rank()) out.push_back(r);
    return out;
  }
  void count() {
    resolution seen;
    std::vector<int> others;
    for (int r = 0; r < engine_.ranks(); ++r) {
      auto const vote = votes_.of(r, number_);
      if (!vote || excluded_[static_cast<std::size_t>(r)]) continue;
      seen.flags &= vote->flags;
      if (vote->on != motion_) others.push_back(r);
      else if (vote->flags == 0) seen.named.push_back(r);
    }
    if (others.empty()) propose(resolution::agreed, seen.named, seen.flags);
    else propose(resolution::mismatched, others);
  }
  void propose(resolution::outcomes outcome, std::vector<int> named, std::uint32_t flags = 0) {
    resolution out{outcome, flags, {}, {}, std::move(named)};
    for (int r = 0; r < engine_.ranks(); ++r) {
      if (!gone_[static_cast<std::size_t>(r)]) continue;
      out.gone.push_back(r);
      if (engine_.transport().left(r)) out.left.push_back(r);
    }
    votes_.propose(number_, out);
  }

  engine<Transport>& engine_;
  decltype(std::declval<Transport&>().votes()) votes_;
  std::uint64_t number_;
  motion motion_;
  std::chrono::nanoseconds exclude_after_;
  std::vector<bool> gone_, excluded_ = std::vector<bool>(ranks());
};

// Calls f(engine) with the engine whose ranks can tell which of them survive: this one, or that of the only node.
template <class Transport, class F>
void with_voters(engine<Transport>& on, std::source_location where, F&& f) {
  on.process.expect_this(where);
  if constexpr (has_levels<Transport>)
    if (auto* const node = on.levels->only_node()) return f(node->engine());
  if (on.ranks() > max_ranks)
    refuse(on.rank(), join({"an agreement among ", on.ranks(), " ranks"}),
           join({"agree in groups of at most ", max_ranks, " ranks"}), where);
  if constexpr (may_survive<Transport>)
    if (!on.transport().survives())
      refuse(on.rank(), "ranks over this MPI cannot agree on the survivors, because it has no fault tolerance (ULFM)",
             "use Open MPI 5 or later and mpirun --with-ft ulfm; on one machine tutti::init() or "
             "tutti::init<tutti::hierarchical>(); or restart the job from saved data",
             where);
  if constexpr (holds_votes<Transport>) f(on);
  else
    refuse(on.rank(), "the ranks of this transport cannot agree on the survivors", "restart the job from saved data",
           where);
}

template <class Transport>
resolution hold_vote(engine<Transport>& on, motion subject, std::uint32_t flags, std::chrono::nanoseconds exclude_after,
                     std::source_location where) {
  resolution out;
  with_voters(on, where, [&](auto& voters) {
    voters.expect_included(where);
    out = agreeing(voters, subject, flags, exclude_after).run(where);
  });
  return out;
}

}  // namespace tutti::detail
