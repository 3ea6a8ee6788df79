// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// revoke, abort, agree and shrink: recovery from the loss of ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/call/perform.hpp"
#include "tutti/fault/survival.hpp"

namespace tutti {
namespace detail {

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
    engine_.agreements = std::max(number_, votes_.last_decided());
    if (out.outcome == resolution::agreed) return settle(out, where);
    int const peer = out.named.size() == 1 && out.named[0] != engine_.rank() ? out.named[0] : -1;
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
      return true;
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
      if (motion_ == motion::shrink)
        for (int const r : decided.gone) engine_.transport().exclude(r);
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

template <class Transport>
void expect_able_to_exclude(engine<Transport>& on, std::source_location where) {
  if constexpr (!excludes_ranks<Transport>)
    refuse(on.rank(), "a rank that is alive cannot be excluded from ranks over MPI, because MPI itself waits for it",
           "end its process, and call shrink() without exclude_after", where);
}

// Ends the calls of all ranks, and waits for those that this rank has started.
template <class Transport>
void end_calls_to_shrink(engine<Transport>& on, std::source_location where) {
  auto const end = [](auto& calls) {
    calls.revoke_for_survivors();
    if (pending_calls* const all = calls.started.get()) all->finish();
  };
  with_voters(on, where, end);
  if constexpr (has_levels<Transport>) end(on);
}

// A communicator of the survivors, all of which call it.
template <class Transport>
communicator<Transport> make_survivors(communicator<Transport>& comm, std::vector<int> const& left, bool others_live,
                                       std::chrono::nanoseconds limit, std::source_location where) {
  auto& ranks = comm.engine().transport();
  countdown until(limit);
  try {
    if constexpr (may_survive<Transport>)
      if (ranks.survives()) return comm.make_group(ranks.shrink(left, others_live, until));
    return comm.make_group(ranks.subgroup(left, until));
  } catch (error const& e) {
    throw e.in_call(where);
  }
}

template <class Transport>
void revoke_everywhere(engine<Transport>& on, std::string_view why) {
  // First on the levels, where all ranks learn of it from this rank: a rank that takes it over from the whole reports
  // itself.
  if constexpr (has_levels<Transport>)
    if (auto* const node = on.levels->only_node()) node->engine().revoke(why);
  on.revoke(why);
}

}  // namespace detail

template <transport Transport>
void communicator<Transport>::revoke(std::string_view reason) {
  detail::revoke_everywhere(*engine_, detail::join({"rank ", rank(), " has revoked the communicator: ", reason}));
}

template <transport Transport>
void communicator<Transport>::abort(std::string_view reason, int exit_code) {
  std::string const text = detail::join({"rank ", rank(), " has aborted the job: ", reason});
  try {
    detail::revoke_everywhere(*engine_, text);
  } catch (...) {  // this process ends anyway
  }
  std::fprintf(stderr, "tutti: %s\n", text.c_str());
  std::fflush(nullptr);
  if constexpr (detail::ends_job<Transport>) engine_->transport().end_job(exit_code);
  std::_Exit(exit_code);
}

template <transport Transport>
agreement communicator<Transport>::agree(int flags, std::source_location where) {
  if constexpr (detail::bound_to_thread<Transport>) engine_->transport().expect_thread();
  if (size() == 1) return {flags, {}};
  detail::resolution out =
      detail::hold_vote(*engine_, detail::motion::agree, static_cast<std::uint32_t>(flags), {}, where);
  return {static_cast<int>(out.flags), std::move(out.gone)};
}

// Two agreements per round: one on the survivors, and, when each of these has tried to create their group, one on
// whether all succeeded and all are still alive. A further round means that another rank was lost or excluded, so the
// rounds end.
template <transport Transport>
communicator<Transport> communicator<Transport>::shrink(shrink_options how, std::source_location where)
  requires detail::divisible<Transport>
{
  bool const excludes = how.exclude_after.count() > 0;
  if (excludes) detail::expect_able_to_exclude(*engine_, where);
  if (size() > 1) {
    engine_->expect_open(where);
    if constexpr (detail::bound_to_thread<Transport>) engine_->transport().expect_thread();
    detail::end_calls_to_shrink(*engine_, where);
  }
  auto const vote = [&](bool yes) {
    return size() > 1 ? detail::hold_vote(*engine_, detail::motion::shrink, yes ? 1 : 0, how.exclude_after, where)
                      : detail::resolution{};
  };
  std::chrono::nanoseconds const limit = excludes ? how.exclude_after : engine_->environment.timeout;
  while (true) {
    detail::resolution const before = vote(true);
    std::vector<int> const& gone = before.gone;
    std::vector<int> left;
    for (int r = 0; r < size(); ++r)
      if (!std::binary_search(gone.begin(), gone.end(), r)) left.push_back(r);
    std::optional<communicator> made;
    std::exception_ptr refused;
    try {
      made.emplace(detail::make_survivors(*this, left, !before.left.empty(), limit, where));
    } catch (...) {
      refused = std::current_exception();
    }
    detail::resolution const after = vote(made.has_value());
    if (after.gone != gone) continue;
    if (refused) std::rethrow_exception(refused);
    if (!after.named.empty())
      throw error({.code = error_code::system,
                   .rank = rank(),
                   .peer = after.named.front(),
                   .what = detail::join({"survivors could not create their group: ", detail::list_of(after.named)}),
                   .way_out = "check the output of these ranks",
                   .where = where});
    engine_->close(
        detail::join({"rank ", rank(), " has shrunk this communicator to the ranks ", detail::list_of(left)}),
        "continue with the communicator that shrink() returned");
    if (!gone.empty() && made->rank() == 0) detail::report_survival();
    made->survivors_ = std::move(left);
    return std::move(*made);
  }
}

}  // namespace tutti
