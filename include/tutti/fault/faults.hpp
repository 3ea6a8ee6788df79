// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Detects faults, reports them to the user and announces them to the other ranks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
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
#include "tutti/fault/peer_states.hpp"
#include "tutti/fault/recorder.hpp"
#include "tutti/fault/settings.hpp"
#include "tutti/fault/way_out.hpp"
#include "tutti/transport/absence.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/notice.hpp"

namespace tutti::detail {

// The rank that finds a fault records it on the notice board, wakes the others and throws; the others then report the same fault.
// Within a rank, one thread may be in a call while another moves messages, agrees or revokes; either may find a fault.
template <transport Transport>
class faults {
 private:
  std::unique_ptr<Transport> transport_;

 protected:
  enum who_finds_it : bool { beside_calls, in_call };

 public:
  settings const environment;
  owning_process const process;
  // Asked during long waits: reports a fault of an enclosing group, which ends this group's call too.
  std::function<std::optional<fault>()> fault_outside;
  std::string numbering;  // what the errors of a group add, because they name ranks by their numbers within it

  // `timeout`: as for settings::from_environment.
  explicit faults(std::unique_ptr<Transport> transport, std::chrono::nanoseconds timeout = {})
      : transport_(std::move(transport)), environment(settings::from_environment(timeout)) {
    if (ranks() > 1) notices_.emplace(transport_->notices());
  }
  faults(faults const&) = delete;
  faults& operator=(faults const&) = delete;

  int rank() const noexcept { return transport_->rank(); }
  int ranks() const noexcept { return transport_->ranks(); }
  Transport& transport() noexcept { return *transport_; }
  auto& notices() noexcept { return *notices_; }

  // The timeout of a call that asks for this one; 0: that of the communicator.
  std::chrono::nanoseconds timeout_for(std::chrono::nanoseconds asked) const noexcept {
    return asked.count() > 0 ? asked : environment.timeout;
  }
  // The number of the call that began last.
  std::uint64_t sequence() const noexcept { return sequence_.load(std::memory_order_relaxed); }

  bool has_fault() const noexcept { return notices_ && notices_->faulty(); }
  // Whether expect_no_fault() returns.
  bool is_usable() const noexcept {
    return process.is_this() && !is_closed_.load(std::memory_order_acquire) && !has_fault();
  }
  void expect_no_fault(std::source_location where = std::source_location::current()) {
    if (!is_usable()) [[unlikely]]
      report_unusable(where);
  }
  // The same for a rank that has waited long: also asks for faults of an enclosing group.
  [[gnu::cold]] void expect_no_fault_anywhere(std::source_location where, who_finds_it who = beside_calls);
  void expect_open(std::source_location where) const {
    process.expect_this(where);
    if (is_closed_.load(std::memory_order_acquire)) throw closed_->in_call(where);
  }
  // Throws if the survivors have excluded this rank.
  [[gnu::cold]] void expect_included(std::source_location where) {
    if (is_excluded()) report_fault(where, beside_calls);
  }
  [[noreturn, gnu::cold]] void raise(fault const& f, std::source_location where, who_finds_it who = beside_calls);

  // -- Ending the communicator for all ranks, unless it already has a fault.
  [[gnu::cold]] void revoke(std::string_view why, circumstance when = circumstance::usual);
  // The same because of a rank whose loss was found on another communicator of the same ranks.
  [[gnu::cold]] void repeat(error const& lost);
  // Revokes with lost ranks as the reason, if any rank is lost.
  [[gnu::cold]] void revoke_for_survivors();
  // Makes every further call of this rank throw this error, unless the communicator is closed already.
  [[gnu::cold]] void close(std::string_view what, std::string_view way_out, int peer = -1);
  // Ends this group by a fault of another whose ranks it shares. `peer`: the rank to blame, if both number it alike.
  [[gnu::cold]] void take_over(fault const& f, int peer = -1) noexcept;

  // While the error of a group that could not be created is handled: that error, with the reasons of the ranks that it names.
  [[gnu::cold]] error explained(error const& e) const;

  // Returns a fault that is already known. Tells peers that this rank still waits in its call.
  [[gnu::cold]] std::optional<fault> poll_fault();

  // What the ranks are doing.
  peer_states<Transport> states() const { return {*transport_, notices_}; }

  // Writes a flight record if a signal has requested one; called during long waits, which continue if it cannot be written.
  [[gnu::cold]] void record_where_asked();

 protected:
  [[noreturn, gnu::cold]] void report_fault(std::source_location where, who_finds_it who);
  // Waits, but not for ever, until no peer reads the arrays of the call, which the caller may free after the error.
  [[gnu::cold]] void withdraw() noexcept;

  [[gnu::cold]] std::string way_out(error_code code, circumstance when = circumstance::usual) const {
    return std::string(way_out_over(*transport_, code, when)) + numbering;
  }

  // Whether memory that peers may still read stays mapped until the transport is destroyed.
  static constexpr bool memory_outlives_owner = [] {
    if constexpr (maps_memory<Transport>) return Transport::memory_outlives_owner;
    else return true;
  }();

  std::optional<decltype(std::declval<Transport&>().notices())> notices_;
  std::atomic<std::uint64_t> sequence_{0};
  std::optional<recorder> recorder_;

 private:
  [[gnu::cold, gnu::noinline]] void report_unusable(std::source_location where) {
    expect_open(where);
    if (has_fault()) report_fault(where, beside_calls);
  }
  [[gnu::cold]] bool is_excluded() const noexcept;
  // What an excluded rank reports instead of the fault that the communicator has.
  [[gnu::cold]] fault exclusion() const;

  std::mutex closing_;
  std::optional<error> closed_;  // thrown by every call once set
  std::atomic<bool> is_closed_ = false;
};

template <transport Transport>
void faults<Transport>::expect_no_fault_anywhere(std::source_location where, who_finds_it who) {
  expect_open(where);
  if (has_fault()) report_fault(where, who);
  if (fault_outside)
    if (auto const f = fault_outside()) raise({f->code, rank(), -1, f->text, f->when}, where, who);
}

template <transport Transport>
void faults<Transport>::raise(fault const& f, std::source_location where, who_finds_it who) {
  notices_->raise(f);
  transport_->wake_all();
  report_fault(where, who);
}

template <transport Transport>
void faults<Transport>::revoke(std::string_view why, circumstance when) {
  process.expect_this({});
  if (ranks() == 1) return close(why, way_out(error_code::revoked, when), rank());
  notices_->raise({error_code::revoked, rank(), rank(), std::string(why), when});
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
  auto const why = states().why_gone(gone);
  notices_->raise({code, rank(), gone, join({states().departure(code, gone), ", and ", shrinks, why.text}), why.when});
  transport_->wake_all();
}

template <transport Transport>
void faults<Transport>::close(std::string_view what, std::string_view way_out, int peer) {
  std::lock_guard const lock(closing_);
  if (closed_) return;
  closed_.emplace(error::details{.code = error_code::revoked,
                                 .rank = rank(),
                                 .peer = peer,
                                 .what = std::string(what),
                                 .way_out = std::string(way_out)});
  is_closed_.store(true, std::memory_order_release);
}

template <transport Transport>
void faults<Transport>::repeat(error const& lost) {
  process.expect_this({});
  if (ranks() == 1) return;
  notices_->raise({lost.code(), rank(), lost.peer(), lost.happened()});
  transport_->wake_all();
}

template <transport Transport>
void faults<Transport>::take_over(fault const& f, int peer) noexcept {
  if (ranks() == 1) return;
  notices_->raise({f.code, rank(), peer, text_or([&] { return f.text; }, "see other ranks"), f.when});
  transport_->wake_all();
}

template <transport Transport>
error faults<Transport>::explained(error const& e) const {
  if (ranks() == 1) return e;
  std::string reasons;
  circumstance when = circumstance::usual;
  for (int const peer : ranks_of_handled_error()) {
    if (peer < 0 || peer == rank()) continue;
    auto const why = states().why_gone(peer);
    if (when == circumstance::usual) when = why.when;
    reasons += why.text;
  }
  if (reasons.empty()) return e;
  return error({.code = e.code(),
                .rank = e.rank(),
                .peer = e.peer(),
                .what = e.happened() + reasons,
                .way_out = way_out(error_code::rank_left, when)});
}

template <transport Transport>
std::optional<fault> faults<Transport>::poll_fault() {
  if constexpr (tutti::detail::queries_peers<Transport>) transport_->poll_notices();
  if (!notices_->faulty()) return {};
  return notices_->find_fault();
}

template <transport Transport>
void faults<Transport>::record_where_asked() {
  if (!notices_ || !recorder_->requested()) return;
  try {
    recorder_->write_where_asked(join({"a signal, ", states().doing(rank())}), sequence(), *notices_);
  } catch (std::bad_alloc const&) {  // no record, but the wait goes on
  }
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
  error const out({found.code, rank(), found.peer, found.text, way_out(found.code, found.when), where});
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
      if (!transport_->marked_as_excluded(r)) survivors.push_back(r);
  return {error_code::excluded, rank(), -1,
          join({"rank ", rank(), " was excluded: it did not join a shrink in time, and the survivors (",
                list_of(survivors), ") continue without it"})};
}

template <transport Transport>
void faults<Transport>::withdraw() noexcept {
  if constexpr (!memory_outlives_owner) {
    auto const look = [&] {
      for (int peer = 0; peer < ranks(); ++peer)
        if (peer != rank() && notices_->reading(peer)) return progress::stuck;
      return progress::done;
    };
    wait_until_done(look, transport_->waits(), deadline::after(environment.timeout),
                    [&](auto const& ready) { transport_->nap(ready); });
  }
}

}  // namespace tutti::detail
