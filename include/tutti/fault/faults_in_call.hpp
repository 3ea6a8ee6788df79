// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The faults that a running call finds: a rank that is gone or late, and calls that differ.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/execute/protocol_violation.hpp"
#include "tutti/fault/call_record.hpp"
#include "tutti/fault/faults.hpp"
#include "tutti/fault/survival.hpp"
#include "tutti/fault/way_out.hpp"
#include "tutti/transport/absence.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti::detail {

// For the thread that drives the running call.
template <transport Transport>
class faults_in_call : public faults<Transport> {
 public:
  using faults<Transport>::faults;
  using faults<Transport>::rank, faults<Transport>::ranks, faults<Transport>::transport, faults<Transport>::sequence;
  using faults<Transport>::states, faults<Transport>::poll_fault;

  // Polls an execution. Where a rank that gives up may free arrays that its peers read, it tells them by a fault and waits
  // until none is reading (see withdraw); here a peer says so first, and reads only if there is no fault.
  template <class Execution>
  [[gnu::always_inline]] progress poll(Execution& of_call) {
    if constexpr (faults<Transport>::memory_outlives_owner || !requires { requires Execution::reads_peers; }) {
      return of_call.poll();
    } else {
      notices_->set_reading(true);
      progress reached = progress::stuck;
      try {
        if (!notices_->faulty()) reached = of_call.poll();
      } catch (...) {
        notices_->set_reading(false);
        throw;
      }
      notices_->set_reading(false);
      return reached;
    }
  }

  // Throws if there is no point in waiting longer.
  [[gnu::cold]] void examine(std::source_location where);

  // Reports the failure of a part of this call, which only the ranks `members` take part in. Where possible it names
  // the ranks and calls of the whole group.
  [[noreturn, gnu::cold]] void report_part(error const& e, std::vector<int> const& members,
                                           std::chrono::nanoseconds timeout, std::source_location where);

  [[noreturn, gnu::cold]] void report_timeout(std::chrono::nanoseconds timeout, std::source_location where);

  [[noreturn, gnu::cold]] void report(protocol_violation const& s, std::source_location where);

  // Called where memory of a peer cannot be read: the peer may have released it because an exception makes it give up, which it says soon
  // after. Waits for a fault, which then is the first one; if there is none, returns how the peer has gone, if it has.
  [[gnu::cold]] std::optional<error_code> wait_for_reason_of(int peer);

  // Called before this rank leaves. A rank that waited for nobody in its last calls, such as a root, does not know whether the
  // others made the same calls. Of two neighbours that disagree, the one that leaves later finds out, and prints the error.
  [[gnu::cold]] void compare_last_calls() noexcept;
  // Called by all ranks after they have announced that they leave, if their calls differ: rank 0 prints how.
  [[gnu::cold]] void report_different_calls() noexcept;

 protected:
  using faults<Transport>::notices_, faults<Transport>::recorder_, faults<Transport>::way_out;

  [[gnu::cold]] std::string this_call() const;

 private:
  // Asks peers for news, which may reveal a fault that they have found.
  [[gnu::cold]] void query_peers(std::source_location where);

  // Waits until there is a fault, or known() holds, for at most a second.
  template <class Known>
  [[gnu::cold]] void wait_for_fault_or(Known&& known);
  [[noreturn, gnu::cold]] void raise_gone(error_code code, int peer, std::source_location where);
  [[gnu::cold]] std::string disagreement(int peer, std::uint64_t call) const;
  [[noreturn, gnu::cold]] void raise_mismatch(int peer, std::uint64_t call, std::source_location where);
};

template <transport Transport>
void faults_in_call<Transport>::examine(std::source_location where) {
  this->record_where_asked();
  this->expect_no_fault_anywhere(where, this->in_call);
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    if (std::uint64_t const call = states().first_disagreement(peer, sequence())) raise_mismatch(peer, call, where);
    if (notices_->finished(peer) >= sequence()) continue;
    // read first: a rank that leaves in order announces it before its process ends
    bool const lost = transport().lost(peer);
    bool const left = transport().left(peer);
    if (!left && !lost) continue;
    // The peer may have finished and left between the two reads.
    if (notices_->finished(peer) >= sequence()) continue;
    raise_gone(left ? error_code::rank_left : error_code::rank_lost, peer, where);
  }
}

template <transport Transport>
void faults_in_call<Transport>::report_part(error const& e, std::vector<int> const& members,
                                            std::chrono::nanoseconds timeout, std::source_location where) {
  query_peers(where);
  auto const expect_agreement = [&] {
    for (int peer = 0; peer < ranks(); ++peer)
      if (std::uint64_t const call = peer == rank() ? 0 : states().first_disagreement(peer, sequence()))
        raise_mismatch(peer, call, where);
  };
  expect_agreement();
  if (e.code() == error_code::timeout) report_timeout(timeout, where);
  int const peer =
      e.peer() >= 0 && e.peer() < static_cast<int>(members.size()) ? members[static_cast<std::size_t>(e.peer())] : -1;
  bool const gone = e.code() == error_code::rank_left || e.code() == error_code::rank_lost;
  // A rank that timed out, took over a fault of the whole group or made a different call reports this to the whole
  // group as well.
  bool const differ = e.code() == error_code::mismatch;
  // A peer in a later call may have found the fault there, and announced it.
  auto const known = [&] {
    if (!differ) return peer >= 0 && (transport().left(peer) || transport().lost(peer));
    return std::all_of(members.begin(), members.end(), [&](int m) { return notices_->called(m) == sequence(); }) ||
           std::any_of(members.begin(), members.end(),
                       [&](int m) { return m != rank() && states().first_disagreement(m, sequence()) != 0; });
  };
  if (gone || differ || peer < 0) wait_for_fault_or(known);
  expect_agreement();
  if (notices_->faulty()) this->report_fault(where, this->in_call);
  if (gone && peer >= 0) raise_gone(e.code(), peer, where);
  this->raise({e.code(), rank(), peer, in_part(members, e)}, where, this->in_call);
}

template <transport Transport>
void faults_in_call<Transport>::report_timeout(std::chrono::nanoseconds timeout, std::source_location where) {
  query_peers(where);
  std::string absent;
  int first = -1;  // the furthest behind, because it may be what the other ones wait for
  std::uint64_t call_of_first = sequence();
  for (int peer = 0; peer < ranks(); ++peer) {
    std::uint64_t const call = notices_->called(peer);
    if (peer == rank() || call >= sequence()) continue;
    if (call < call_of_first) {
      first = peer;
      call_of_first = call;
    }
    append(absent, {"; rank ", peer, " has not arrived: it is ", states().doing(peer)});
  }
  if (auto const stopped = states().find_stopped(); stopped.first >= 0) {
    first = stopped.first;
    absent += stopped.text;
  }
  circumstance when = first < 0 ? circumstance::all_arrived : circumstance::usual;
  if (first < 0)
    absent = join({"; all ranks have arrived, but at least one of them makes no progress",
                   doubt_about_schedule(*notices_, rank(), ranks(), sequence(), when)});
  double const seconds = std::chrono::duration<double>(timeout).count();
  this->raise({error_code::timeout, rank(), first,
               join({this_call(), " did not complete within ", seconds, " s", absent}), when},
              where, this->in_call);
}

template <transport Transport>
void faults_in_call<Transport>::report(protocol_violation const& s, std::source_location where) {
  if (s.refused != 0) {
    if (auto const gone = wait_for_reason_of(s.peer)) raise_gone(*gone, s.peer, where);
    this->raise({error_code::system, rank(), s.peer,
                 join({"rank ", rank(), " cannot read the memory of rank ", s.peer, ": ", std::strerror(s.refused),
                       ", in ", this_call()})},
                where, this->in_call);
  }
  query_peers(where);
  if (std::uint64_t const call = states().first_disagreement(s.peer, sequence()); s.other_call && call != 0)
    raise_mismatch(s.peer, call, where);
  std::string const what =
      s.other_call
          ? join({"a message of another call came from rank ", s.peer, ", which is ", states().last_call(s.peer)})
          : join({"rank ", s.peer, " sent ", s.bytes, s.more ? " or more bytes" : " bytes", " where rank ", rank(),
                  " expects ", s.expected, s.expected_more ? " or more" : ""});
  circumstance when = s.other_call ? circumstance::usual : circumstance::lengths;
  std::string const doubt = doubt_about_schedule(*notices_, rank(), ranks(), sequence(), when);
  this->raise({error_code::mismatch, rank(), s.peer, join({what, ", in ", this_call(), doubt}), when}, where,
              this->in_call);
}

template <transport Transport>
template <class Known>
void faults_in_call<Transport>::wait_for_fault_or(Known&& known) {
  wait_until_done([&] { return poll_fault() || known() ? progress::done : progress::stuck; }, transport().waits(),
                  deadline::after(std::chrono::seconds(1)), [&](auto const& ready) { transport().nap(ready); });
}

template <transport Transport>
std::optional<error_code> faults_in_call<Transport>::wait_for_reason_of(int peer) {
  std::optional<error_code> gone;
  wait_for_fault_or([&] {
    bool const lost = transport().lost(peer);  // read first: a rank that leaves says so before its process ends
    if (transport().left(peer)) gone = error_code::rank_left;
    else if (lost) gone = error_code::rank_lost;
    return gone.has_value();
  });
  return this->has_fault() ? std::nullopt : gone;
}

template <transport Transport>
void faults_in_call<Transport>::compare_last_calls() noexcept {
  if (notices_->faulty()) return;
  try {
    for (int const peer : {(rank() + 1) % ranks(), (rank() + ranks() - 1) % ranks()})
      if (std::uint64_t const call = states().first_disagreement(peer, sequence())) raise_mismatch(peer, call, {});
  } catch (error const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    if (e.code() == error_code::mismatch) report_late_mismatch();
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
}

template <transport Transport>
void faults_in_call<Transport>::report_different_calls() noexcept {
  if constexpr (tutti::detail::queries_peers<Transport>) try {
      transport().query_peers();
      if (rank() != 0 || notices_->faulty()) return;
      int other = -1;
      std::string what = "ranks made different calls, which are no longer on record";
      for (int peer = ranks(); peer-- > 1;)
        if (transport().left(peer) && notices_->called(peer) != sequence()) {
          other = peer;
          what = join({"ranks made different calls: rank 0 closes its communicator ", states().last_call(0), ", rank ",
                       peer, " ", states().last_call(peer)});
        }
      for (int peer = ranks(); peer-- > 1;)
        if (std::uint64_t const call = states().first_disagreement(peer, sequence())) {
          other = peer;
          what = disagreement(peer, call);
        }
      error const found({.code = error_code::mismatch,
                         .rank = 0,
                         .peer = other,
                         .what = what,
                         .way_out = way_out(error_code::mismatch)});
      recorder_->note_error(found.what(), sequence(), *notices_);
      std::fprintf(stderr, "%s\n", found.what());
    } catch (std::bad_alloc const&) {
      std::fprintf(stderr, "tutti: ranks made different calls before they closed their communicator\n");
    }
}

template <transport Transport>
void faults_in_call<Transport>::query_peers(std::source_location where) {
  if constexpr (tutti::detail::queries_peers<Transport>) {
    transport().query_peers();
    if (notices_->faulty()) this->report_fault(where, this->in_call);
  }
}

template <transport Transport>
void faults_in_call<Transport>::raise_gone(error_code code, int peer, std::source_location where) {
  auto const why = states().why_gone(peer);
  this->raise(
      {code, rank(), peer,
       join({states().departure(code, peer), ", while rank ", rank(), " is in ", this_call(), why.text}), why.when},
      where, this->in_call);
}

template <transport Transport>
std::string faults_in_call<Transport>::disagreement(int peer, std::uint64_t call) const {
  return join(
      {"ranks disagree in call #", call, ": ", states().said_of(rank(), call), ", ", states().said_of(peer, call)});
}

template <transport Transport>
void faults_in_call<Transport>::raise_mismatch(int peer, std::uint64_t call, std::source_location where) {
  this->raise({error_code::mismatch, rank(), peer, disagreement(peer, call)}, where, this->in_call);
}

template <transport Transport>
std::string faults_in_call<Transport>::this_call() const {
  call_words const mine = *notices_->find(rank(), sequence());
  return join({"call #", sequence(), ", ", describe(mine, *notices_, rank())});
}

}  // namespace tutti::detail
