// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Detects faults, reports them to the user and announces them to the other ranks.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/process.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/execute/protocol_violation.hpp"
#include "tutti/fault/call_record.hpp"
#include "tutti/fault/recorder.hpp"
#include "tutti/fault/settings.hpp"
#include "tutti/transport/absence.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti::detail {

// The rank that finds a fault records it on the notice board, wakes the others and throws; the others then report the
// same fault. Within a rank, one thread may be in a call while another moves messages, agrees or revokes; either of
// them may find a fault.
template <transport Transport>
class faults {
 private:
  std::unique_ptr<Transport> transport_;

 public:
  settings const environment = settings::from_environment();
  owning_process const process;
  // Asked during long waits: reports a fault of an enclosing group, which ends this group's call too.
  std::function<std::optional<fault>()> fault_outside;

  explicit faults(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {
    if (ranks() > 1) notices_.emplace(transport_->notices());
  }
  faults(faults const&) = delete;
  faults& operator=(faults const&) = delete;

  int rank() const noexcept { return transport_->rank(); }
  int ranks() const noexcept { return transport_->ranks(); }
  Transport& transport() noexcept { return *transport_; }
  auto& notices() noexcept { return *notices_; }

  // The number of the call that began last.
  std::uint64_t sequence() const noexcept { return sequence_.load(std::memory_order_relaxed); }

  bool has_fault() const noexcept { return notices_ && notices_->faulty(); }
  void expect_no_fault(std::source_location where = std::source_location::current()) {
    expect_open(where);
    if (has_fault()) report_fault(where, beside_calls);
  }
  // The same for a rank that has waited long: also asks for faults of an enclosing group.
  [[gnu::cold]] void expect_no_fault_anywhere(std::source_location where);
  void expect_open(std::source_location where) const {
    process.expect_this(where);
    if (is_closed_.load(std::memory_order_acquire)) throw closed_->in_call(where);
  }
  // Throws if the survivors have excluded this rank.
  [[gnu::cold]] void expect_included(std::source_location where) {
    if (is_excluded()) report_fault(where, beside_calls);
  }
  [[noreturn, gnu::cold]] void raise(fault const& f, std::source_location where);

  // -- Ending the communicator for all ranks, unless it already has a fault.
  [[gnu::cold]] void revoke(std::string_view why);
  // Revokes with lost ranks as the reason, if any rank is lost.
  [[gnu::cold]] void revoke_for_survivors();
  // Makes every further call of this rank throw this error, unless the communicator is closed already.
  [[gnu::cold]] void close(std::string_view what, std::string_view way_out);
  // Ends this group by a fault of the group that it is part of. Rank numbers of the two differ.
  [[gnu::cold]] void take_over(fault const& f) noexcept;

  // Returns a fault that is already known. Tells peers that this rank still waits in its call.
  [[gnu::cold]] std::optional<fault> poll_fault();

  // Describes the state of a peer: "in send of 4 float to rank 1, tag 0", "after call #11, all_reduce of ..." or "in
  // call #12, ...". If its state is known only from messages, the peer may have progressed since.
  [[gnu::cold]] std::string doing(int peer) const;
  // The other ranks whose processes are stopped, as far as the transport sees that. They are to blame for a timeout, and
  // others may be late only because of them.
  struct stopped_ranks {
    int first = -1;
    std::string text{};
  };
  [[gnu::cold]] stopped_ranks find_stopped() const;

  // Writes a flight record if a signal has requested one; called during long waits.
  [[gnu::cold]] void record_where_asked();

  // -- For the thread that drives the running call.

  // Polls an execution. Where a rank that gives up may free arrays that its peers read, it tells them by a fault and waits
  // until none is reading (see withdraw); here a peer says so first, and reads only if there is no fault.
  template <class Execution>
  [[gnu::always_inline]] progress poll(Execution& of_call) noexcept {
    if constexpr (memory_outlives_owner || !requires { requires Execution::reads_peers; }) {
      return of_call.poll();
    } else {
      notices_->set_reading(true);
      progress const reached = notices_->faulty() ? progress::stuck : of_call.poll();
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

 protected:
  enum who_finds_it : bool { beside_calls, in_call };

  [[noreturn, gnu::cold]] void report_fault(std::source_location where, who_finds_it who);

  [[gnu::cold]] std::string this_call() const;

  // Whether memory that peers may still read stays mapped until the transport is destroyed.
  static constexpr bool memory_outlives_owner = [] {
    if constexpr (maps_memory<Transport>) return Transport::memory_outlives_owner;
    else return true;
  }();

  std::optional<decltype(std::declval<Transport&>().notices())> notices_;
  std::atomic<std::uint64_t> sequence_{0};
  std::optional<recorder> recorder_;

 private:
  [[noreturn, gnu::cold]] void raise(fault const& f, std::source_location where, who_finds_it who);
  [[gnu::cold]] void expect_no_fault_anywhere(std::source_location where, who_finds_it who);

  // Asks peers for news, which may reveal a fault that they have found.
  [[gnu::cold]] void query_peers(std::source_location where);

  [[gnu::cold]] bool is_excluded() const noexcept;
  // What an excluded rank reports instead of the fault that the communicator has.
  [[gnu::cold]] fault exclusion() const;

  [[gnu::cold]] std::string departure(error_code code, int peer) const;
  [[noreturn, gnu::cold]] void raise_gone(error_code code, int peer, std::source_location where);

  [[gnu::cold]] call_words mine() const;
  [[gnu::cold]] std::string last_call(int peer) const;

  // The earliest call still on the board in which a peer makes a different call; 0 if there is none. This rank may have
  // finished that call already, since not every rank waits in every call.
  [[gnu::cold]] std::uint64_t first_disagreement(int peer) const;
  [[noreturn, gnu::cold]] void raise_mismatch(int peer, std::uint64_t call, std::source_location where);

  // The caller may free its arrays after the error is thrown, so this waits until no peer reads them: for the longest
  // operation, but not for ever.
  [[gnu::cold]] void withdraw() noexcept;

  [[gnu::cold]] static std::string way_out(error_code code);

  std::mutex closing_;
  std::optional<error> closed_;  // thrown by every call once set
  std::atomic<bool> is_closed_ = false;
};

template <transport Transport>
void faults<Transport>::expect_no_fault_anywhere(std::source_location where) {
  expect_no_fault_anywhere(where, beside_calls);
}

template <transport Transport>
void faults<Transport>::expect_no_fault_anywhere(std::source_location where, who_finds_it who) {
  expect_open(where);
  if (has_fault()) report_fault(where, who);
  if (fault_outside)
    if (auto const f = fault_outside()) raise({f->code, rank(), -1, f->text}, where, who);
}

template <transport Transport>
void faults<Transport>::raise(fault const& f, std::source_location where) {
  raise(f, where, beside_calls);
}

template <transport Transport>
void faults<Transport>::raise(fault const& f, std::source_location where, who_finds_it who) {
  notices_->raise(f);
  transport_->wake_all();
  report_fault(where, who);
}

template <transport Transport>
void faults<Transport>::revoke(std::string_view why) {
  process.expect_this({});
  if (ranks() == 1) return close(why, way_out(error_code::revoked));
  notices_->raise({static_cast<int>(error_code::revoked), rank(), rank(), std::string(why)});
  transport_->wake_all();
}

template <transport Transport>
void faults<Transport>::revoke_for_survivors() {
  if constexpr (tutti::detail::queries_peers<Transport>)
    transport_->poll_notices();  // the loss may have been found in another group
  int gone = 0;
  while (gone < ranks() && (gone == rank() || !(transport_->lost(gone) || transport_->left(gone)))) ++gone;
  std::string const shrinks = join({"rank ", rank(), " is shrinking the communicator to the remaining ranks"});
  if (gone == ranks()) return revoke(shrinks);
  error_code const code = transport_->left(gone) ? error_code::rank_left : error_code::rank_lost;
  notices_->raise({static_cast<int>(code), rank(), gone, join({departure(code, gone), ", and ", shrinks})});
  transport_->wake_all();
}

template <transport Transport>
void faults<Transport>::close(std::string_view what, std::string_view way_out) {
  std::lock_guard const lock(closing_);
  if (closed_) return;
  closed_.emplace(error::details{
      .code = error_code::revoked, .rank = rank(), .what = std::string(what), .way_out = std::string(way_out)});
  is_closed_.store(true, std::memory_order_release);
}

template <transport Transport>
void faults<Transport>::take_over(fault const& f) noexcept {
  if (ranks() == 1) return;
  notices_->raise({f.code, rank(), -1, f.text});
  transport_->wake_all();
}

template <transport Transport>
std::optional<fault> faults<Transport>::poll_fault() {
  if constexpr (tutti::detail::queries_peers<Transport>) transport_->poll_notices();
  if (!notices_->faulty()) return {};
  return notices_->find_fault();
}

template <transport Transport>
std::string faults<Transport>::doing(int peer) const {
  auto const message = notices_->awaited(peer);
  if (!message) return last_call(peer);
  std::string const waits = join({describe_message(*message, *notices_, peer), at_place_in(*message, *notices_, peer)});
  if (notices_->called(peer) <= notices_->finished(peer)) return join({"in ", waits});
  return join({last_call(peer), ", and tests ", waits});
}

template <transport Transport>
void faults<Transport>::record_where_asked() {
  if (notices_ && recorder_->requested())
    recorder_->write_where_asked(join({"a signal, ", doing(rank())}), sequence(), *notices_);
}

template <transport Transport>
void faults<Transport>::examine(std::source_location where) {
  record_where_asked();
  expect_no_fault_anywhere(where, in_call);
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    if (std::uint64_t const call = first_disagreement(peer)) raise_mismatch(peer, call, where);
    if (notices_->finished(peer) >= sequence()) continue;
    // read first: a rank that leaves in order announces it before its process ends
    bool const lost = transport_->lost(peer);
    bool const left = transport_->left(peer);
    if (!left && !lost) continue;
    // The peer may have finished and left between the two reads.
    if (notices_->finished(peer) >= sequence()) continue;
    raise_gone(left ? error_code::rank_left : error_code::rank_lost, peer, where);
  }
}

template <transport Transport>
void faults<Transport>::report_part(error const& e, std::vector<int> const& members, std::chrono::nanoseconds timeout,
                                    std::source_location where) {
  query_peers(where);
  auto const expect_agreement = [&] {
    for (int peer = 0; peer < ranks(); ++peer)
      if (std::uint64_t const call = peer == rank() ? 0 : first_disagreement(peer)) raise_mismatch(peer, call, where);
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
    if (!differ) return peer >= 0 && (transport_->left(peer) || transport_->lost(peer));
    return std::all_of(members.begin(), members.end(), [&](int m) { return notices_->called(m) == sequence(); }) ||
           std::any_of(members.begin(), members.end(),
                       [&](int m) { return m != rank() && first_disagreement(m) != 0; });
  };
  if (gone || differ || peer < 0)
    wait_until_done([&] { return poll_fault() || known() ? progress::done : progress::stuck; }, transport_->waits(),
                    deadline::after(std::chrono::seconds(1)),
                    [&](auto const& ready) {
                      transport_->nap(ready);
                      return true;
                    });
  expect_agreement();
  if (notices_->faulty()) report_fault(where, in_call);
  if (gone && peer >= 0) raise_gone(e.code(), peer, where);
  raise({static_cast<int>(e.code()), rank(), peer,
         join({"in its part among the ranks {", list_of(members), "}, which are 0 and up there: ", e.happened()})},
        where, in_call);
}

template <transport Transport>
typename faults<Transport>::stopped_ranks faults<Transport>::find_stopped() const {
  stopped_ranks out;
  if constexpr (tutti::detail::sees_stops<Transport>) {
    for (int peer = 0; peer < ranks(); ++peer) {
      if (peer == rank() || !transport_->stopped(peer)) continue;
      if (out.first < 0) out.first = peer;
      out.text += join({"; the process of rank ", peer, " is stopped, by a signal or a debugger"});
    }
  }
  return out;
}

template <transport Transport>
void faults<Transport>::report_timeout(std::chrono::nanoseconds timeout, std::source_location where) {
  query_peers(where);
  std::string absent;
  int first = -1;
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank() || notices_->called(peer) >= sequence()) continue;
    if (first < 0) first = peer;
    absent += join({"; rank ", peer, " has not arrived: it is ", doing(peer)});
  }
  if (stopped_ranks const stopped = find_stopped(); stopped.first >= 0) {
    first = stopped.first;
    absent += stopped.text;
  }
  if (first < 0)
    absent = join({"; all ranks have arrived, but at least one of them makes no progress",
                   doubt_about_schedule(*notices_, rank(), sequence())});
  double const seconds = std::chrono::duration<double>(timeout).count();
  raise({static_cast<int>(error_code::timeout), rank(), first,
         join({this_call(), " did not complete within ", seconds, " s", absent})},
        where, in_call);
}

template <transport Transport>
void faults<Transport>::report(protocol_violation const& s, std::source_location where) {
  if (s.refused != 0)
    raise({static_cast<int>(error_code::system), rank(), s.peer,
           join({"rank ", rank(), " cannot read the memory of rank ", s.peer, ": ", std::strerror(s.refused), ", in ",
                 this_call()})},
          where, in_call);
  query_peers(where);
  if (std::uint64_t const call = first_disagreement(s.peer); s.other_call && call != 0)
    raise_mismatch(s.peer, call, where);
  std::string const what =
      s.other_call ? join({"a message of another call came from rank ", s.peer, ", which is ", last_call(s.peer)})
                   : join({"rank ", s.peer, " sent ", s.bytes, s.more ? " or more bytes" : " bytes", " where rank ",
                           rank(), " expects ", s.expected, s.expected_more ? " or more" : "", " (slice by slice)"});
  raise({static_cast<int>(error_code::mismatch), rank(), s.peer,
         join({what, ", in ", this_call(), doubt_about_schedule(*notices_, rank(), sequence())})},
        where, in_call);
}

template <transport Transport>
void faults<Transport>::report_fault(std::source_location where, who_finds_it who) {
  expect_open(where);
  // For a fault of a part, the whole group decides.
  notices_->acknowledge_fault([&] { return fault_outside && fault_outside(); });
  if (who == in_call) withdraw();
  fault const found = is_excluded() ? exclusion()
                                    : await_fault([&] { return notices_->find_fault(); },
                                                  [&] { transport_->nap([] { return false; }); });
  auto const code = static_cast<error_code>(found.code);
  int const other = found.peer == rank() ? found.rank : found.peer, peer = other == rank() ? -1 : other;
  error const out({code, rank(), peer, found.text, way_out(code), where});
  recorder_->note_error(out.what(), sequence(), *notices_);
  throw out;
}

template <transport Transport>
bool faults<Transport>::is_excluded() const noexcept {
  if constexpr (excludes_ranks<Transport>) return ranks() > 1 && transport_->excluded(rank());
  else return false;
}

template <transport Transport>
fault faults<Transport>::exclusion() const {
  std::vector<int> survivors;
  if constexpr (excludes_ranks<Transport>)
    for (int r = 0; r < ranks(); ++r)
      if (!transport_->excluded(r)) survivors.push_back(r);
  return {static_cast<int>(error_code::excluded), rank(), -1,
          join({"rank ", rank(), " was excluded: it did not join a shrink in time, and the survivors (",
                list_of(survivors), ") continue without it"})};
}

template <transport Transport>
std::string faults<Transport>::this_call() const {
  return join({"call #", sequence(), ", ", describe(mine(), *notices_, rank())});
}

template <transport Transport>
void faults<Transport>::query_peers(std::source_location where) {
  if constexpr (tutti::detail::queries_peers<Transport>) {
    transport_->query_peers();
    if (notices_->faulty()) report_fault(where, in_call);
  }
}

template <transport Transport>
std::string faults<Transport>::departure(error_code code, int peer) const {
  bool const left = code == error_code::rank_left;
  return join(
      {left ? join({"rank ", peer, " closed its communicator "}) : join({transport_->describe(peer), " ended "}),
       last_call(peer)});
}

template <transport Transport>
void faults<Transport>::raise_gone(error_code code, int peer, std::source_location where) {
  raise({static_cast<int>(code), rank(), peer,
         join({departure(code, peer), ", while rank ", rank(), " is in ", this_call()})},
        where, in_call);
}

template <transport Transport>
call_words faults<Transport>::mine() const {
  return notices_->find(rank(), sequence()).value();
}

template <transport Transport>
std::string faults<Transport>::last_call(int peer) const {
  std::uint64_t const called = notices_->called(peer), finished = notices_->finished(peer);
  bool const knows = !tutti::detail::queries_peers<Transport> || peer == rank();
  if (called == 0) return knows ? "before its first call" : "not heard from yet";
  auto const words = notices_->find(peer, called);
  std::string const what =
      words ? join({describe(*words, *notices_, peer), at_place_in(*words, *notices_, peer)}) : "no longer on record";
  char const* const seen = knows ? "in call #" : "in or after call #";
  return join({finished >= called ? "after call #" : seen, called, ", ", what});
}

template <transport Transport>
std::uint64_t faults<Transport>::first_disagreement(int peer) const {
  std::uint64_t const last = sequence();
  for (std::uint64_t call = last < records ? 1 : last - records + 1; call <= last; ++call) {
    auto const ours = notices_->find(rank(), call), theirs = notices_->find(peer, call);
    if (ours && theirs && fingerprint_of(*ours) != fingerprint_of(*theirs)) return call;
  }
  return 0;
}

template <transport Transport>
void faults<Transport>::raise_mismatch(int peer, std::uint64_t call, std::source_location where) {
  auto const said = [&](int who) {
    auto const words = notices_->find(who, call);
    if (!words) return join({"rank ", who, " makes a different call"});
    return join({"rank ", who, " calls ", describe(*words, *notices_, who), at_place_in(*words, *notices_, who)});
  };
  raise({static_cast<int>(error_code::mismatch), rank(), peer,
         join({"ranks disagree in call #", call, ": ", said(rank()), ", ", said(peer)})},
        where, in_call);
}

template <transport Transport>
void faults<Transport>::withdraw() noexcept {
  if constexpr (!memory_outlives_owner) {
    auto const look = [&] {
      for (int peer = 0; peer < ranks(); ++peer)
        if (peer != rank() && notices_->reading(peer)) return progress::stuck;
      return progress::done;
    };
    wait_until_done(look, transport_->waits(), deadline::after(environment.timeout), [&](auto const& ready) {
      transport_->nap(ready);
      return true;
    });
  }
}

template <transport Transport>
std::string faults<Transport>::way_out(error_code code) {
  switch (code) {
    case error_code::mismatch:
      return "all ranks must make the same calls in the same order, with equal counts, types and operations";
    case error_code::timeout:
      return "find out why the ranks that have not arrived are late, or raise TUTTI_TIMEOUT or options::timeout";
    case error_code::rank_lost:
      return "check the output of the rank that ended; this communicator can no longer be used";
    case error_code::system:
      return maps_memory<Transport> ? "use protocol staged or direct for such memory"
                                    : "check for other errors of the transport's library";
    case error_code::revoked: return "continue with the communicator that shrink() or subgroup() returns, or stop";
    case error_code::excluded:
      return "end this process, or start a new job with it; find out what held it up, or raise "
             "shrink_options::exclude_after";
    case error_code::rank_left: return "all ranks must make the same calls before they close their communicators";
    default: return "this communicator can no longer be used";
  }
}

}  // namespace tutti::detail
