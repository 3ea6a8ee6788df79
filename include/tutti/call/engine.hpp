// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The engine of a communicator: begins and ends calls, and keeps resources that calls reuse.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/call/grown_memory.hpp"
#include "tutti/call/lent_memory.hpp"
#include "tutti/call/pending_calls.hpp"
#include "tutti/core/made_once.hpp"
#include "tutti/core/sole_user.hpp"
#include "tutti/core/unwinding.hpp"
#include "tutti/execute/eager.hpp"
#include "tutti/execute/host.hpp"
#include "tutti/execute/packet.hpp"
#include "tutti/fault/faults_in_call.hpp"
#include "tutti/transport/notice.hpp"
#include "tutti/tune/select.hpp"

namespace tutti::detail {

// The state of the algorithm two_level; see call/levels.hpp.
template <class Transport>
class levels;
struct no_levels {};

template <transport Transport>
class engine : public faults_in_call<Transport> {
 public:
  using faults<Transport>::rank, faults<Transport>::ranks, faults<Transport>::transport, faults<Transport>::process;

  // Whether threads other than the one that uses the communicator may drive its started calls.
  bool any_thread = true;
  tutti::detail::unwinding unwinding;
  tuning tuned;  // chooses algorithms
  [[no_unique_address]] std::conditional_t<has_levels<Transport>, std::unique_ptr<tutti::detail::levels<Transport>>,
                                           no_levels> levels;
  made_once<detail::pending_calls> started;
  made_once<detail::pending_calls> messages;
  std::uint64_t agreements = 0;  // number of agreements that this rank has voted in

  // Kept from call to call, so that calls allocate nothing once these have grown.
  plan_cache plans;
  reference_list references;
  grown_memory<Transport> scratch;  // space::scratch
  grown_memory<Transport> copy;     // of an input, if an algorithm does not work in place
  grown_memory<Transport> fetched;  // from peers' private memory, to be combined
  lent_memory<Transport> bucket;    // of small arrays that share a call
  lent_memory<Transport> packed;    // copies of ranges that are not contiguous
  lent_numbers counts_and_offsets;  // of _v forms

  [[gnu::cold]] explicit engine(std::unique_ptr<Transport> own, std::chrono::nanoseconds timeout = {});
  [[gnu::cold]] ~engine();

  // -- The life of a call: enter(), then begin() and finish(), or leave().

  // Throws if another thread is in a call. Only after it may a call touch what calls share, such as `plans`.
  void enter(std::source_location where) {
    process.expect_this(where);
    if constexpr (bound_to_thread<Transport>) transport().expect_thread();
    if (!caller_.enter()) [[unlikely]]
      report_call_of_other_thread(where);
  }
  void leave() noexcept { caller_.leave(); }
  // Throws if the communicator already has a fault.
  void begin(plan const& p, std::source_location where) {
    history_ = (history_ ^ p.fingerprint) * 0x9e3779b97f4a7c15u;
    std::uint64_t const sequence = this->sequence() + 1;
    sequence_.store(sequence, std::memory_order_relaxed);
    auto const site = sites_.word_of(where, [&] { return shared_site(where); });
    notices_->begin(sequence, p.words, site);
    recorder_->begin(sequence, *notices_);
    if (notices_->faulty()) this->report_fault(where, this->in_call);
  }
  // A rank that has a fault may have changed memory that this rank has just read.
  void finish(std::source_location where) {
    if (notices_->faulty()) this->report_fault(where, this->in_call);
    notices_->finish(this->sequence());
    recorder_->end(this->sequence(), *notices_);
    leave();
  }
  // Called when an exception that is no fault ends the running call, or this rank's messages, so that the others do not wait.
  [[gnu::cold]] void give_up() noexcept {
    raise_given_up([this] { return this->this_call(); });
  }
  // The same, but the error names `what` instead of the running call, which may not have begun.
  [[gnu::cold]] void give_up(std::string_view what) noexcept {
    raise_given_up([what] { return std::string(what); });
  }
  // Called before an error of this rank alone leaves its call. If the rank then leaves without another call, its peers learn why.
  [[gnu::cold]] void note_refusal(error const& e) noexcept;
  // Called when this rank makes another call in its place that has no number: starts a message.
  void forget_refusal() noexcept {
    if (refused_.load(std::memory_order_relaxed) != this->sequence() + 1) [[likely]]
      return;
    std::lock_guard const lock(introducing_);
    refused_ = 0;
    notices_->explain_leaving(circumstance::usual, {});
  }
  // Called before this rank leaves. If it leaves because of an exception, peers learn that, unless they know the reason already.
  [[gnu::cold]] void note_exception() noexcept {
    if (notices_ && unwinding.begun() && refused_ != this->sequence() + 1)
      notices_->explain_leaving(circumstance::exception, {});
  }
  // Called before a call or message throws. A fault ends all others in flight too, because the program may release their memory.
  [[gnu::cold]] void stop_in_flight_if_faulty() noexcept {
    if (this->has_fault()) for_each_queue([](pending_calls& all) { all.stop(); });
  }
  [[gnu::cold]] void give_up_in_flight() noexcept {
    for_each_queue([](pending_calls& all) { all.give_up(); });
  }

  // For objects that refer to this engine and may outlive it: expires with it.
  std::weak_ptr<engine> reference() const noexcept { return itself_; }

  // Marks every message of the running call, and depends on all earlier ones: if calls differ, the next message shows it.
  std::uint32_t tag() const noexcept { return static_cast<std::uint32_t>(history_ >> 32); }
  // Includes the calls of another group, which are also the same on all ranks.
  void mix_history(std::uint32_t other_tag) noexcept { history_ = (history_ ^ other_tag) * 0x9e3779b97f4a7c15u; }
  // The packets of all ranks, packet_stride apart.
  std::byte* inbox() { return inbox_.at_least(packet_stride * static_cast<std::size_t>(ranks())); }

  // For calls and messages, which may begin on two threads.
  [[gnu::cold]] void introduce(std::uint32_t id, std::string_view name) noexcept;

  // A call site, for the board.
  std::uint64_t shared_site(std::source_location where) {
    return to_shared_word(where, [&](std::uint32_t id, std::string_view file) { introduce(id, file); });
  }

  void note_messages(message_history const* all) noexcept { recorder_->note_messages(all); }
  call_statistics statistics(collective what) const;
  void write_record(std::string const& prefix, std::string const& reason) const;

 private:
  using faults<Transport>::notices_;
  using faults<Transport>::recorder_;
  using faults<Transport>::sequence_;

  // Whether a watchdog looks at its calls of the MPI.
  static constexpr bool waits_in_library =
      requires(typename peer_states<Transport>::board_type const& board) { board.inside_mpi(); };

  // Throws error: bad_argument, or the fault that has left the call of this thread without an end.
  [[noreturn, gnu::cold]] void report_call_of_other_thread(std::source_location where);

  template <class Describe>
  [[gnu::cold]] void raise_given_up(Describe const& what) noexcept;

  template <class F>
  void for_each_queue(F&& f) noexcept {
    for (pending_calls* const all : {started.get(), messages.get()})
      if (all != nullptr) f(*all);
  }
  void make_recorder() {
    recorder_.emplace(this->environment, rank(), ranks(), Transport::name, in_one_process<Transport>);
  }

  grown_memory<Transport> inbox_;
  std::uint64_t history_ = 0;  // a hash of all calls
  sole_user caller_{this->environment.finds_every_thread()};
  std::mutex introducing_;  // names, and reasons to leave
  shared_sites sites_;
  std::atomic<std::uint64_t> refused_ = 0;  // in place of which call one was refused
  std::shared_ptr<engine> const itself_{std::make_shared<char>(), this};

 public:
  deadline::clock::time_point last_meeting{};  // when this rank arrived at it
  // Slices of arrays with gaps pass through it. Last, so that inbox_, history_ and caller_, which calls use, share a cache line.
  grown_memory<Transport> windows;
};

template <transport Transport>
engine<Transport>::engine(std::unique_ptr<Transport> own, std::chrono::nanoseconds timeout)
    : faults_in_call<Transport>(std::move(own), timeout),
      scratch(transport()),
      copy(transport()),
      fetched(transport()),
      bucket(transport()),
      packed(transport()),
      inbox_(transport()),
      windows(transport()) {
  if constexpr (bound_to_thread<Transport>) any_thread = transport().allows_concurrent_threads();
  // If all ranks are on one node, its group makes their calls, and writes the first record.
  bool node_is_first = false;
  if constexpr (has_levels<Transport>) node_is_first = transport().nodes().count() == 1;
  if (!node_is_first) make_recorder();
  if constexpr (has_levels<Transport>) levels = std::make_unique<tutti::detail::levels<Transport>>(*this);
  if (node_is_first) make_recorder();
  if constexpr (maps_memory<Transport>) {
    std::size_t open = 0;  // messages to one peer in flight at once
    for (int t = 0; t < max_tracks; ++t) open += slots_of(ranks(), t);
    references.reserve(open * static_cast<std::size_t>(ranks() - 1));
  }
  if constexpr (waits_in_library)
    if (notices_)
      notices_->inside_mpi().set_record(
          [this](std::string const& why) { recorder_->note_error(why, this->sequence(), *notices_); });
}

template <transport Transport>
engine<Transport>::~engine() {
  if constexpr (waits_in_library)
    if (notices_) notices_->inside_mpi().set_record(nullptr);
  started.reset();
  messages.reset();
  if (ranks() == 1) return;
  note_exception();
  this->compare_last_calls();
  if constexpr (has_levels<Transport>) {
    levels->end_started();
    levels->share_faults();
    levels->leave();
  }
  transport().leave();
  if constexpr (compares_when_leaving<Transport>)
    if (transport().differ_when_leaving(history_)) this->report_different_calls();
}

template <transport Transport>
void engine<Transport>::report_call_of_other_thread(std::source_location where) {
  if (this->has_fault()) this->report_fault(where, this->beside_calls);
  std::string what;
  if (ranks() == 1) what = "another thread of rank 0 is in a call";
  else if (notices_->called(rank()) > notices_->finished(rank()))
    what = join({"rank ", rank(), " is still ", this->states().doing(rank()),
                 ", which another thread made, or whose operation makes this one"});
  else what = join({"another thread of rank ", rank(), " begins or ends a call at the same moment"});
  throw error(
      {.code = error_code::bad_argument,
       .rank = rank(),
       .what = std::move(what),
       .way_out = "let one thread at a time make calls on a communicator, or give each one of its own: split(0)",
       .where = where});
}

template <transport Transport>
template <class Describe>
void engine<Transport>::raise_given_up(Describe const& what) noexcept {
  if (notices_->faulty()) return;
  auto const text = [&] { return join({"rank ", rank(), " gave up ", what(), " because of an exception"}); };
  notices_->raise({error_code::rank_left, rank(), rank(), text_or(text, "out of memory"), circumstance::exception});
  transport().wake_all();
  this->withdraw();
}

template <transport Transport>
void engine<Transport>::note_refusal(error const& e) noexcept {
  bool const own = e.code() == error_code::bad_argument || e.code() == error_code::buffer_in_use;
  if (ranks() == 1 || !own || !process.is_this()) return;
  {
    std::lock_guard const lock(introducing_);
    refused_ = this->sequence() + 1;
    auto const text = [&] { return join({e.happened(), " (", shared_file(e.where()), ":", e.where().line(), ")"}); };
    notices_->explain_leaving(circumstance::refused, text_or(text, "out of memory"));
  }
  if constexpr (has_levels<Transport>)
    if (auto* const node = levels->only_node()) node->engine().note_refusal(e);
}

template <transport Transport>
void engine<Transport>::introduce(std::uint32_t id, std::string_view name) noexcept {
  if (!notices_) return;
  std::lock_guard const lock(introducing_);
  notices_->introduce(id, name);
}

template <transport Transport>
call_statistics engine<Transport>::statistics(collective what) const {
  call_statistics out = recorder_->statistics(what);
  if constexpr (has_levels<Transport>)
    if (auto* const node = levels->only_node()) out += node->statistics(what);
  return out;
}

template <transport Transport>
void engine<Transport>::write_record(std::string const& prefix, std::string const& reason) const {
  if (!notices_) return;
  if constexpr (has_levels<Transport>)
    if (auto* const node = levels->only_node()) {
      node->write_record(prefix, reason);
      if (this->sequence() == 0) return;
    }
  recorder_->write(prefix, reason, this->sequence(), *notices_);
}

}  // namespace tutti::detail
