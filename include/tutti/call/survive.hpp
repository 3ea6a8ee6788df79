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

#include "tutti/call/agreeing.hpp"
#include "tutti/call/perform.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/process.hpp"
#include "tutti/core/text.hpp"
#include "tutti/fault/survival.hpp"
#include "tutti/transport/system/uncaught.hpp"

namespace tutti {
namespace detail {

template <class Transport>
void expect_able_to_exclude(engine<Transport>& on, shrink_options how, std::source_location where) {
  if (how.exclude_after.count() < 0)
    refuse(on.rank(), "shrink_options::exclude_after is negative or not a number",
           "set a positive time, or 0 to wait for ranks that are alive", where);
  if (!excludes_ranks<Transport> && how.exclude_after.count() > 0)
    refuse(on.rank(), "a rank that is alive cannot be excluded from ranks over MPI, because MPI itself waits for it",
           "end its process, and call shrink() without exclude_after", where);
}

// Ends the calls of all ranks, and waits for those that this rank has started.
template <class Transport>
void end_calls_to_shrink(engine<Transport>& on, std::source_location where) {
  auto const finish = [](auto& calls) {
    if (pending_calls* const all = calls.started.get()) all->finish();
  };
  with_voters(on, where, [&](auto& voters) {
    voters.revoke_for_survivors();
    finish(voters);
  });
  if constexpr (has_levels<Transport>) {
    if (auto* const node = on.levels->only_node())
      if (auto const f = node->engine().poll_fault())
        on.take_over(*f, f->peer);  // a rank may have learned of it nowhere else
    finish(on);
  }
}

// A communicator of the survivors, all of which call it.
template <class Transport>
communicator<Transport> make_survivors(communicator<Transport>& comm, std::vector<int> const& left, bool others_live,
                                       std::chrono::nanoseconds limit, std::source_location where) {
  auto& ranks = comm.engine().transport();
  countdown until(limit);
  try {
    if constexpr (may_survive<Transport>)
      if (ranks.survives()) return comm.make_group(ranks.shrink(left, others_live, until), left);
    if constexpr (requires { ranks.subgroup(left, until, others_live); })
      return comm.make_group(ranks.subgroup(left, until, others_live), left);
    else return comm.make_group(ranks.subgroup(left, until), left);
  } catch (error const& e) {
    throw e.in_call(where);
  }
}

// Tells the launcher that the others go on without the ranks that are gone, and which of these live.
template <class Transport>
void report_survivors(Transport const& ranks, std::vector<int> const& gone) noexcept {
  if constexpr (requires { ranks.process_of(0); })
    for (int const r : gone)
      if (!ranks.lost(r)) report_exclusion(ranks.process_of(r));
  report_survival();
}

template <class Transport>
void revoke_everywhere(engine<Transport>& on, std::string_view why, circumstance when = circumstance::usual) {
  if constexpr (bound_to_thread<Transport>) on.transport().expect_thread();
  // First on the levels, where all ranks learn of it from this rank: a rank that takes it over from the whole reports
  // itself.
  if constexpr (has_levels<Transport>)
    if (auto* const node = on.levels->only_node()) node->engine().revoke(why, when);
  on.revoke(why, when);
}

// Calls make(), which allocates the result. A rank without memory for it revokes the communicator, so that nobody waits for it.
template <class Comm, class Make>
decltype(auto) revoking_without_memory(Comm& comm, std::uint64_t bytes, std::source_location where, Make&& make) {
  try {
    return make();
  } catch (std::exception const&) {
    std::string const what = join({"rank ", comm.rank(), " has no memory for a result of ", bytes, " bytes"});
    comm.revoke(what);
    throw error({.code = error_code::system,
                 .rank = comm.rank(),
                 .what = what,
                 .way_out = "send less at once, or provide more memory",
                 .where = where});
  }
}

}  // namespace detail

template <transport Transport>
void communicator<Transport>::revoke(std::string_view reason) {
  expect_usable({});
  detail::revoke_everywhere(*engine_, detail::join({"rank ", rank(), " has revoked the communicator: ", reason}));
}

template <transport Transport>
void communicator<Transport>::revoke(error const& cause) {
  bool const names_loss = cause.code() == error_code::rank_lost || cause.code() == error_code::rank_left;
  if (!names_loss || cause.peer() < 0 || cause.peer() >= size()) return revoke(cause.happened());
  expect_usable({});
  if constexpr (detail::bound_to_thread<Transport>) engine_->transport().expect_thread();
  if constexpr (detail::has_levels<Transport>)
    if (auto* const node = engine_->levels->only_node()) node->engine().repeat(cause);
  engine_->repeat(cause);
}

template <transport Transport>
void communicator<Transport>::abort(std::string_view reason, int exit_code) {
  expect_usable({});
  std::string const text = detail::join({"rank ", rank(), " has aborted the job: ", reason});
  detail::count_as_printed(text);  // before others learn of it
  try {
    detail::revoke_everywhere(*engine_, text, detail::circumstance::aborted);
  } catch (...) {  // this process ends anyway
  }
  std::fprintf(stderr, "tutti: %s\n", text.c_str());
  detail::flush_output();
  if constexpr (detail::ends_job<Transport>) engine_->transport().end_job(exit_code);
  std::_Exit(exit_code);
}

template <transport Transport>
agreement communicator<Transport>::agree(int flags, shrink_options how, std::source_location where) {
  expect_usable(where);
  detail::expect_able_to_exclude(*engine_, how, where);
  if constexpr (detail::bound_to_thread<Transport>) engine_->transport().expect_thread();
  if (size() == 1) return {flags, {}};
  detail::resolution out =
      detail::hold_vote(*engine_, detail::motion::agree, static_cast<std::uint32_t>(flags), how.exclude_after, where);
  return {static_cast<int>(out.flags), std::move(out.gone)};
}

template <transport Transport>
bool communicator<Transport>::can_shrink(shrink_options how) const {
  expect_usable({});
  if (how.exclude_after.count() > 0 && !detail::excludes_ranks<Transport>) return false;
  return detail::can_shrink(engine_->transport());
}

template <transport Transport>
std::vector<rank_activity> communicator<Transport>::activity() const {
  expect_usable({});
  if (size() == 1) return {{.calls = engine_->sequence()}};
  std::vector<rank_activity> out;
  if constexpr (!detail::queries_peers<Transport>)
    for (int r = 0; r < size(); ++r) {
      out.push_back({.calls = engine_->notices().called(r)});
      if constexpr (detail::sees_stops<Transport>) out.back().stopped = engine_->transport().stopped(r);
    }
  return out;
}

// Two agreements per round: one on the survivors, and, when each of these has tried to create their group, one on
// whether all succeeded and all are still alive. A further round means that another rank was lost or excluded, so the
// rounds end.
template <transport Transport>
communicator<Transport> communicator<Transport>::shrink(shrink_options how, std::source_location where)
  requires detail::divisible<Transport>
{
  expect_usable(where);
  detail::expect_able_to_exclude(*engine_, how, where);
  if (size() > 1) {
    engine_->expect_open(where);
    if constexpr (detail::bound_to_thread<Transport>) engine_->transport().expect_thread();
    detail::end_calls_to_shrink(*engine_, where);
  }
  constexpr std::uint32_t has_group = 1, is_blameless = 2;
  auto const vote = [&](std::uint32_t flags) {
    return size() > 1 ? detail::hold_vote(*engine_, detail::motion::shrink, flags, how.exclude_after, where)
                      : detail::resolution{};
  };
  std::chrono::nanoseconds const limit =
      how.exclude_after.count() > 0 ? how.exclude_after : engine_->environment.timeout;
  while (true) {
    detail::resolution const before = vote(has_group | is_blameless);
    std::vector<int> const& gone = before.gone;
    std::vector<int> left;
    for (int r = 0; r < size(); ++r)
      if (!std::binary_search(gone.begin(), gone.end(), r)) left.push_back(r);
    std::optional<communicator> made;
    std::exception_ptr refused;
    std::uint32_t flags = 0;
    try {
      made.emplace(detail::make_survivors(*this, left, !before.left.empty(), limit, where));
      flags = has_group | is_blameless;
    } catch (error const& e) {
      refused = std::current_exception();
      // If no further rank is gone, the one that it waited for could not create the group.
      if (e.code() == error_code::rank_lost || e.code() == error_code::rank_left || e.code() == error_code::revoked)
        flags = is_blameless;
    } catch (...) {
      refused = std::current_exception();
    }
    detail::resolution const after = vote(flags);
    if (after.gone != gone) continue;
    std::vector<int> const& culprits = after.named;
    if (refused && (flags == 0 || culprits.empty())) std::rethrow_exception(refused);
    if ((after.flags & has_group) == 0)
      throw error({.code = error_code::system,
                   .rank = rank(),
                   .peer = culprits.empty() ? -1 : culprits.front(),
                   .what = detail::join({"survivors could not create their group", culprits.empty() ? "" : ": ",
                                         detail::list_of(culprits)}),
                   .way_out = "check the output of these ranks",
                   .where = where});
    engine_->close(
        detail::join({"rank ", rank(), " has shrunk this communicator to the ranks ", detail::list_of(left)}),
        "continue with the communicator that shrink() returned");
    if (!gone.empty() && made->rank() == 0) detail::report_survivors(engine_->transport(), gone);
    made->survivors_ = std::move(left);
    return std::move(*made);
  }
}

}  // namespace tutti
