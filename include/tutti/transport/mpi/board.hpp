// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The notice board where nobody can read a peer's memory: ranks that have waited long tell each other what they are in,
// and a fault is told to all at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <mpi.h>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "tutti/core/wait.hpp"
#include "tutti/transport/board.hpp"
#include "tutti/transport/mpi/news.hpp"
#include "tutti/transport/notice.hpp"

namespace tutti::detail {

// What a rank says of itself, whole in every message. Copies are handles of one board. A rank that computes outside of the
// library neither speaks nor hears, so of a peer is known what it said last, and what its messages said. Threads may use it
// at once, where they may call the MPI at once.
class mpi_board {
 public:
  // `calls`: where ranks may wait within the MPI, and are let go of once one of them is lost.
  mpi_board(MPI_Comm comm, MPI_Comm calls, int tag, int rank, int ranks)
      : news_(std::make_shared<mpi_news>(comm, calls, tag, rank, ranks)) {}

  // -- What the collective layer writes and reads.

  void begin(std::uint64_t sequence, call_words const& call, std::uint64_t place, std::memory_order) noexcept {
    write_call(news_->own[sequence % records], sequence, at_place(call, place));
    news_->called.store(sequence, std::memory_order_release);
    news_->waited.store({}, std::memory_order_relaxed);
    // A fault may have been told while this rank was elsewhere. Not in each call, for a look is a call of the MPI.
    if (sequence % 8 == 0) listen();
  }
  void finish(std::uint64_t sequence) noexcept {
    news_->finished.store(sequence, std::memory_order_release);
    if (news_->told.load(std::memory_order_relaxed) != sequence) return;
    auto const lock = locked();
    news_->tell_all();
  }
  std::uint64_t called(int rank) const noexcept {
    return rank == news_->rank ? sequence() : std::max(said(rank, &notice::called), heard(rank));
  }
  std::uint64_t finished(int rank) const noexcept {
    if (rank == news_->rank) return news_->finished.load(std::memory_order_acquire);
    return std::max(said(rank, &notice::finished), heard(rank) > 0 ? heard(rank) - 1 : 0);
  }
  // A call from which this rank has accepted messages was the same as its own, though made elsewhere perhaps.
  std::optional<call_words> find(int rank, std::uint64_t sequence) const noexcept {
    auto const own = [&] { return read_call(news_->own[sequence % records], sequence); };
    if (rank == news_->rank) return own();
    auto const told = said(rank, &notice::calls)[sequence % mpi_news::told_calls];
    if (sequence != 0 && told.sequence == sequence) return told.words;
    auto const same = sequence <= heard(rank) ? own() : std::nullopt;
    return same ? std::optional(at_place(*same, 0)) : same;
  }

  // The message that this rank waits for, beside all calls: peers are told once it has waited long.
  void set_awaited(call_words const& message) noexcept {
    auto const lock = locked();
    news_->self.awaits = true;
    news_->self.awaited = message;
    news_->be_patient();
  }
  void clear_awaited() noexcept {
    auto const lock = locked();
    news_->self.awaits = false;
    if (news_->told.load(std::memory_order_relaxed) == sequence()) news_->tell_all();
  }
  std::optional<call_words> awaited(int rank) const noexcept {
    auto const lock = locked();
    notice const& n = news_->by(rank);
    return n.awaits ? std::optional(n.awaited) : std::nullopt;
  }

  void introduce(std::uint32_t id, std::string_view text) noexcept {
    auto const lock = locked();
    notice& self = news_->self;
    for (known_name const& entry : self.names)
      if (entry.id == id) return;
    known_name& entry = self.names[news_->introduced++ % self.names.size()];
    entry.id = id;
    copy(text, entry.text);
  }
  std::string name(int rank, std::uint32_t id) const {
    auto const lock = locked();
    for (notice const* const n : std::initializer_list<notice const*>{&news_->by(rank), &news_->self})
      for (known_name const& entry : n->names)
        if (entry.id == id) return entry.text;
    return "?";
  }

  // The first fault that is heard of counts. Of faults that are found at once, that of the lowest rank: all who have one
  // wait for the others' answers before they report it, or for the decision of those whom this group serves.
  void raise(fault const& f) noexcept {
    auto const lock = locked();
    news_->listen();
    if (faulty()) return;
    notice& self = news_->self;
    self.fault_peer = f.peer;
    copy(f.text, self.fault_text);
    self.fault_code = f.code;
    news_->faulty = true;
    auto const text = news_->copy_self();
    news_->for_each_peer([&](int rank, peer& p) { news_->send(rank, p.alarm, text); });
    news_->end_calls_of_lost();
  }
  bool faulty() const noexcept { return news_->faulty.load(std::memory_order_acquire); }
  // Where it has been decided elsewhere which of several faults counts, nobody's answer is waited for.
  template <class Decided>
  void acknowledge_fault(Decided const& decided) noexcept {
    {
      auto const lock = locked();
      news_->self.knows_fault = true;
      news_->tell_all();
    }
    listen_until([&](int rank) { return knows_fault(rank) || left(rank) || lost(rank) || decided(); },
                 std::chrono::seconds(1));
    auto const lock = locked();
    news_->end_calls_of_lost();
  }
  bool knows_fault(int rank) const noexcept { return said(rank, &notice::knows_fault); }
  std::optional<fault> find_fault() const {
    auto const lock = locked();
    for (int r = 0; r < news_->ranks(); ++r) {
      notice const& n = news_->by(r);
      if (n.fault_code != mpi_news::no_fault) return fault{n.fault_code, r, n.fault_peer, n.fault_text};
    }
    return {};
  }

  // -- What the transport does with it.

  // A message of call `sequence`, which is this rank's too, came from a peer.
  void hear(int rank, std::uint64_t sequence) noexcept {
    auto& heard = news_->heard[static_cast<std::size_t>(rank)];
    if (sequence > heard.load(std::memory_order_relaxed)) heard.store(sequence, std::memory_order_relaxed);
  }
  // The last call of which a message came from a peer.
  std::uint64_t heard(int rank) const noexcept {
    return std::max(news_->heard[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed),
                    news_->heard_from_all.load(std::memory_order_relaxed));
  }
  // Every peer has begun the call that this rank is in.
  void hear_all() noexcept { news_->heard_from_all.store(sequence(), std::memory_order_relaxed); }
  std::uint64_t sequence() const noexcept { return news_->called.load(std::memory_order_relaxed); }

  // Takes what has come, and sends again what could not be sent.
  void listen() noexcept {
    auto const lock = locked();
    news_->listen();
  }
  // Sleeps for a little, the longer the more of this call was slept away.
  void sleep() noexcept {
    auto const waited = news_->waited.load(std::memory_order_relaxed);
    auto const time = std::clamp<std::chrono::nanoseconds>(waited, std::chrono::microseconds(20), nap_length);
    std::this_thread::sleep_for(time);
    auto const lock = locked();
    news_->has_waited(time);
  }
  // The same for who sleeps elsewhere, and calls this at least every nap_length.
  void poll_notices() noexcept {
    auto const lock = locked();
    news_->listen();
    news_->has_waited(nap_length);
  }
  // Hears, for a moment, what peers have to say that have come to the same call.
  void ask() noexcept {
    {
      auto const lock = locked();
      if (news_->told.load(std::memory_order_relaxed) != sequence()) news_->tell_all();
    }
    listen_until(
        [&](int rank) { return faulty() || said(rank, &notice::called) >= sequence() || left(rank) || lost(rank); },
        std::chrono::milliseconds(200));
  }
  bool left(int rank) const noexcept { return said(rank, &notice::left); }
  // Whether its process has ended, as far as the MPI has said so.
  bool lost(int rank) const noexcept {
    auto const lock = locked();
    return news_->peers[static_cast<std::size_t>(rank)].lost;
  }
  bool anyone_lost() const noexcept { return news_->anyone_lost.load(std::memory_order_relaxed); }
  void look_for_lost() noexcept {
    auto const lock = locked();
    news_->look_for_lost();
  }
  // Where all leave together nobody needs to know: peers are told once this rank has waited for them long.
  void leave() noexcept {
    auto const lock = locked();
    news_->self.left = true;
    news_->be_patient();
  }
  // Where this rank will not listen until others leave too.
  void leave_at_once() noexcept {
    auto const lock = locked();
    news_->self.left = true;
    news_->tell_all();
  }
  // Whether all that this rank has said was received.
  bool delivered() noexcept {
    auto const lock = locked();
    news_->listen();
    return !news_->behind && std::ranges::all_of(news_->peers, [](peer& p) { return p.idle(); });
  }
  // Whether all that this rank has to say is on its way.
  bool has_told() noexcept {
    auto const lock = locked();
    news_->listen();
    return !news_->behind;
  }
  // Ends the board. False where messages are still on their way: then `abandon` leaves their memory to the MPI.
  bool close() noexcept {
    auto const lock = locked();
    return news_->close();
  }
  void abandon() noexcept { static_cast<void>(new std::shared_ptr<mpi_news>(news_)); }

 private:
  using notice = mpi_news::notice;
  using peer = mpi_news::peer;
  using known_name = mpi_news::known_name;

  std::unique_lock<std::mutex> locked() const noexcept { return std::unique_lock(news_->busy); }
  // A part of what a rank has said last.
  template <class Part>
  Part said(int rank, Part notice::* part) const noexcept {
    auto const lock = locked();
    return news_->by(rank).*part;
  }

  // Until `enough(rank)` of all peers, or for `most`.
  template <class Enough>
  void listen_until(Enough&& enough, std::chrono::nanoseconds most) noexcept {
    auto const look = [&] {
      listen();
      for (int r = 0; r < news_->ranks(); ++r)
        if (r != news_->rank && !enough(r)) return progress::stuck;
      return progress::done;
    };
    wait_until_done(look, patience_sharing_cores, deadline::after(most), [](auto const&) {
      std::this_thread::sleep_for(nap_length);
      return true;
    });
  }

  template <std::size_t N>
  static void copy(std::string_view text, char (&to)[N]) noexcept {
    std::size_t const length = std::min(text.size(), N - 1);
    std::memcpy(to, text.data(), length);
    to[length] = '\0';
  }

  std::shared_ptr<mpi_news> news_;
};

}  // namespace tutti::detail
