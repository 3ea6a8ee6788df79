// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The notice board over messages: ranks that have waited long tell each other their calls, and a fault is sent to all at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mpi.h>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/board.hpp"
#include "tutti/transport/mpi/library.hpp"
#include "tutti/transport/mpi/notice_state.hpp"
#include "tutti/transport/mpi/notices.hpp"
#include "tutti/transport/notice.hpp"
#include "tutti/transport/system/call_watchdog.hpp"
#include "tutti/transport/system/process_watch.hpp"

namespace tutti::detail {

// Each notice describes the whole state of its rank. A rank that computes outside of tutti neither sends nor receives notices, so a peer is
// known by its last notice and by the calls of its messages. Copies share one board. Threads may use it as they may use the MPI.
class mpi_board : public mpi_notices {
 public:
  // `calls`: the communicator in which ranks may wait inside the MPI; it is revoked when one of them is lost.
  mpi_board(MPI_Comm comm, MPI_Comm calls, int tag, int rank, int ranks, std::uint64_t identity)
      : mpi_notices(std::make_shared<mpi_notice_state>(comm, calls, tag, rank, ranks, identity)) {}

  // -- The interface of notice_board.

  std::uint64_t identity() const noexcept { return state_->identity; }

  void begin(std::uint64_t sequence, call_words const& call, std::uint64_t site) noexcept {
    write_call(state_->own[sequence % records], sequence, call, site);
    state_->called.store(sequence, std::memory_order_release);
    state_->waited.store({}, std::memory_order_relaxed);
    // A fault may have been raised while this rank computed. Not checked in every call, because each check calls the MPI.
    if (sequence % 8 == 0) listen();
  }
  void finish(std::uint64_t sequence) noexcept {
    state_->finished.store(sequence, std::memory_order_release);
    if (state_->sent_call.load(std::memory_order_relaxed) != sequence) return;
    auto const lock = locked();
    state_->send_to_all();
  }
  std::uint64_t called(int rank) const noexcept {
    return rank == state_->rank ? sequence() : std::max(last_notice(rank, &notice::called), last_known_call(rank));
  }
  std::uint64_t finished(int rank) const noexcept {
    if (rank == state_->rank) return state_->finished.load(std::memory_order_acquire);
    return std::max(last_notice(rank, &notice::finished), last_known_call(rank) > 0 ? last_known_call(rank) - 1 : 0);
  }
  // A call from which this rank has accepted messages was the same as its own, perhaps made at another site.
  std::optional<call_words> find(int rank, std::uint64_t sequence) const noexcept {
    auto const own = [&] { return read_call(state_->own[sequence % records], sequence); };
    if (rank == state_->rank) return own();
    auto const theirs = last_notice(rank, &notice::calls)[sequence % mpi_notice_state::calls_in_notice];
    if (sequence != 0 && theirs.sequence == sequence) return theirs.words;
    auto const same = sequence <= last_known_call(rank) ? own() : std::nullopt;
    return same ? std::optional(at_site(*same, 0)) : same;
  }

  // The message outside calls that this rank waits for. Peers are told once it has waited long.
  void set_awaited(call_words const& message) noexcept {
    auto const lock = locked();
    state_->self.awaits = true;
    state_->self.awaited = message;
    state_->restart_quiet_time();
  }
  void clear_awaited() noexcept {
    auto const lock = locked();
    state_->self.awaits = false;
    if (state_->sent_call.load(std::memory_order_relaxed) == sequence()) state_->send_to_all();
  }
  std::optional<call_words> awaited(int rank) const noexcept {
    auto const lock = locked();
    notice const& n = state_->by(rank);
    return n.awaits ? std::optional(n.awaited) : std::nullopt;
  }

  void introduce(std::uint32_t id, std::string_view text) noexcept {
    auto const lock = locked();
    notice& self = state_->self;
    for (known_name const& entry : self.names)
      if (entry.id == id) return;
    known_name& entry = self.names[state_->names_known++ % self.names.size()];
    entry.id = id;
    write_terminated(entry.text, text);
  }
  std::string name(int rank, std::uint32_t id) const {
    auto const lock = locked();
    for (notice const* const n : std::initializer_list<notice const*>{&state_->by(rank), &state_->self})
      for (known_name const& entry : n->names)
        if (entry.id == id) return entry.text;
    return "?";
  }

  // Peers are told with the notice that this rank has left.
  void explain_leaving(circumstance when, std::string_view text) noexcept {
    auto const lock = locked();
    notice& self = state_->self;
    if (self.fault_code != mpi_notice_state::no_fault) return;
    self.leaves_instead_of = sequence() + 1;
    self.when = when;
    write_terminated(self.text, text);
  }
  leaving_reason reason_to_leave(int rank) const {
    auto const lock = locked();
    notice const& n = state_->by(rank);
    if (n.fault_code != mpi_notice_state::no_fault ||
        n.leaves_instead_of != std::max(n.called, last_known_call(rank)) + 1)
      return {};
    return {n.when, n.text};
  }

  // The first fault that a rank learns of counts. Of faults raised at the same time, that of the lowest rank counts: a rank
  // that knows of a fault waits for all ranks below its finder to acknowledge one before it reports, or for the decision of
  // the group that it serves.
  void raise(fault const& f) noexcept {
    if (mpi_is_finalized()) return;  // a program may wrongly finalize MPI first
    auto const lock = locked();
    state_->listen();
    if (faulty()) return;
    notice& self = state_->self;
    self.fault_peer = f.peer;
    self.when = f.when;
    write_terminated(self.text, f.text);
    self.fault_code = f.code;
    self.knows_fault = true;
    state_->faulty = true;
    state_->send_alarms();
    state_->revoke_calls_if_lost();
  }
  bool faulty() const noexcept { return state_->faulty.load(std::memory_order_acquire); }
  // Does not wait for the others if it has been decided elsewhere which fault counts.
  template <class Decided>
  void acknowledge_fault(Decided const& decided) noexcept {
    {
      auto const lock = locked();
      state_->self.knows_fault = true;
      if (state_->acknowledged) return;
      state_->send_to_all();
    }
    listen_until(
        [&](int rank) {
          return (rank > first_finder() && is_alarmed(rank)) || last_notice(rank, &notice::knows_fault) || left(rank) ||
                 lost(rank) || decided();
        },
        std::chrono::seconds(1));
    auto const lock = locked();
    state_->acknowledged = true;
    state_->revoke_calls_if_lost();
  }
  std::optional<fault> find_fault() const {
    int const finder = first_finder();
    if (finder == state_->ranks()) return {};
    auto const lock = locked();
    notice const& n = state_->by(finder);
    return fault{n.fault_code, finder, n.fault_peer, n.text, n.when};
  }

  // -- For the transport.

  // A message of call `sequence`, in which this rank is too, came from a peer.
  void note_call(int rank, std::uint64_t sequence) noexcept {
    auto& known = state_->known_call_of[static_cast<std::size_t>(rank)];
    if (sequence > known.load(std::memory_order_relaxed)) known.store(sequence, std::memory_order_relaxed);
  }
  // The last call from which a message of a peer came.
  std::uint64_t last_known_call(int rank) const noexcept {
    return std::max(state_->known_call_of[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed),
                    state_->known_call_of_all.load(std::memory_order_relaxed));
  }
  // Notes that every peer has begun the call that this rank is in.
  void note_all_arrived() noexcept { state_->known_call_of_all.store(sequence(), std::memory_order_relaxed); }

  // Sleeps for as long as this call has slept already, within limits.
  void sleep() noexcept {
    auto const waited = state_->waited.load(std::memory_order_relaxed);
    auto const time = std::clamp<std::chrono::nanoseconds>(waited, std::chrono::microseconds(20), nap_length);
    std::this_thread::sleep_for(time);
    auto const lock = locked();
    state_->has_waited(time);
  }
  // The same for a caller that sleeps elsewhere and calls this at least every nap_length.
  void poll_notices() noexcept {
    auto const lock = locked();
    state_->listen();
    state_->has_waited(nap_length);
  }
  // Waits briefly for notices of peers that have begun the same call.
  void query_peers() noexcept {
    {
      auto const lock = locked();
      if (state_->sent_call.load(std::memory_order_relaxed) != sequence()) state_->send_to_all();
    }
    listen_until(
        [&](int rank) {
          return faulty() || last_notice(rank, &notice::called) >= sequence() || left(rank) || lost(rank);
        },
        std::chrono::milliseconds(200));
  }
  // Where threads note which call of the MPI they are in.
  watched_calls& inside_mpi() const noexcept { return state_->inside_mpi; }
  bool anyone_lost() const noexcept { return state_->anyone_lost.load(std::memory_order_relaxed); }
  // From here on, also learns from the system when the process of a peer has ended.
  void watch(int rank, process_watch const& process) {
    auto const lock = locked();
    state_->neighbours.push_back({rank, process});
    state_->inside_mpi.add_peer(rank, process);
  }
  void look_for_lost() noexcept {
    auto const lock = locked();
    state_->look_for_lost();
  }
  void note_lost(int rank) noexcept {
    auto const lock = locked();
    state_->note_lost(rank);
  }
  // Peers are told only once this rank has waited long for them: they need not know if all leave together.
  void leave() noexcept {
    auto const lock = locked();
    state_->self.left = true;
    state_->restart_quiet_time();
  }
  // Tells peers at once, because this rank will not listen until they leave too.
  void leave_at_once() noexcept {
    auto const lock = locked();
    state_->self.left = true;
    state_->send_to_all();
  }
  // All ranks are about to close, so a notice might find nobody who receives it.
  void end_notices() noexcept {
    auto const lock = locked();
    state_->ended = true;
  }
  // Whether all notices of this rank have been received.
  bool delivered() noexcept {
    auto const lock = locked();
    state_->listen();
    return !state_->behind && std::ranges::all_of(state_->peers, [](peer& p) { return p.idle(); });
  }
  // Whether all notices of this rank are in flight or received.
  bool all_in_flight() noexcept {
    auto const lock = locked();
    state_->listen();
    return !state_->behind;
  }
  // Ends the board. False while notices are in flight: abandon() then leaves their memory to the MPI.
  bool close() noexcept {
    auto const lock = locked();
    return state_->close();
  }
  void abandon() noexcept { state_->kept_for_ever = state_; }
};

}  // namespace tutti::detail
