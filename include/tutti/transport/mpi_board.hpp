// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The notice board where nobody can read a peer's memory: ranks that have waited long tell each other what they are in,
// and a fault is told to all at once.
#pragma once

#include <algorithm>
#include <array>
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
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/wait.hpp"
#include "tutti/transport/board.hpp"
#include "tutti/transport/mpi_ulfm.hpp"
#include "tutti/transport/notice.hpp"

namespace tutti {

// What a rank says of itself, whole in every message. Copies are handles of one board. A rank that computes outside of the
// library neither speaks nor hears, so of a peer is known what it said last, and what its messages said.
//
// Threads may use it at once, where they may call the MPI at once. What every call writes is one thread's at a time and
// atomic; all else is locked, and nobody sleeps or waits under the lock.
class mpi_board {
 public:
  // `calls`: where ranks may wait within the MPI, and are let go of once one of them is lost.
  mpi_board(MPI_Comm comm, MPI_Comm calls, int tag, int rank, int ranks)
      : news_(std::make_shared<news>(comm, calls, tag, rank, ranks)) {}

  // -- What the collective layer writes and reads.

  void begin(std::uint64_t sequence, call_words const& call, std::uint64_t place, std::memory_order) noexcept {
    call_record& record = news_->own[sequence % records];
    record.place.store(place, std::memory_order_relaxed);
    write_call(record, sequence, call);
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
  std::uint64_t place(std::uint64_t sequence) const noexcept {
    return news_->own[sequence % records].place.load(std::memory_order_relaxed);
  }
  // A call from which this rank has accepted messages was the same as its own.
  std::optional<call_words> find(int rank, std::uint64_t sequence) const noexcept {
    auto const own = [&] { return read_call(news_->own[sequence % records], sequence); };
    if (rank == news_->rank) return own();
    known_call const told = said(rank, &notice::calls)[sequence % told_calls];
    if (sequence != 0 && told.sequence == sequence) return told.words;
    return sequence <= heard(rank) ? own() : std::nullopt;
  }

  // The message that this rank waits for, beside all calls: peers are told once it has waited long.
  void await(call_words const& message) noexcept {
    auto const lock = locked();
    news_->self.awaits = true;
    news_->self.awaited = message;
    news_->be_patient();
  }
  void await_nothing() noexcept {
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
  // wait for the others' answers before they report it.
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
  void accept_fault() noexcept {
    {
      auto const lock = locked();
      news_->self.knows_fault = true;
      news_->tell_all();
    }
    listen_until([&](int rank) { return knows_fault(rank) || left(rank) || lost(rank); }, std::chrono::seconds(1));
    auto const lock = locked();
    news_->end_calls_of_lost();
  }
  bool knows_fault(int rank) const noexcept { return said(rank, &notice::knows_fault); }
  std::optional<fault> find_fault() const {
    auto const lock = locked();
    for (int r = 0; r < news_->ranks(); ++r) {
      notice const& n = news_->by(r);
      if (n.fault_code != no_fault) return fault{n.fault_code, r, n.fault_peer, n.fault_text};
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
  void heed() noexcept {
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
  void abandon() noexcept { static_cast<void>(new std::shared_ptr<news>(news_)); }

 private:
  static constexpr int no_fault = -1;
  static constexpr std::uint64_t nothing = ~std::uint64_t{0};
  // Ranks that wait for less say nothing: a message to every peer is much.
  static constexpr std::chrono::milliseconds patient{50};
  // Of those that this rank remembers, peers are told the last: each message to a peer has them all.
  static constexpr std::size_t told_calls = 8;

  struct known_call {
    std::uint64_t sequence;
    call_words words;
  };
  struct known_name {
    std::uint32_t id;
    char text[60];
  };
  struct notice {
    std::uint64_t called = 0, finished = 0;
    bool left = false, knows_fault = false, awaits = false;
    int fault_code = no_fault, fault_peer = -1;
    std::array<known_call, told_calls> calls{};  // its last
    call_words awaited{};
    std::array<known_name, 16> names{};
    char fault_text[1008]{};
  };
  static_assert(std::is_trivially_copyable_v<notice>);

  // What a peer is being told, which it must have received before this is used again: it may not be listening. Those who
  // are told the same share the text.
  struct letter {
    std::shared_ptr<notice const> text{};
    MPI_Request request = MPI_REQUEST_NULL;

    bool idle() noexcept {
      int done = 1;
      return request == MPI_REQUEST_NULL || MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
    }
  };
  struct peer {
    std::unique_ptr<notice> last{};  // what it said; null for most, since whoever is not waited for says nothing
    letter current{};
    letter alarm{};      // the fault that this rank has found, at most one
    bool stale = false;  // there is something newer to say
    bool lost = false;   // its process has ended

    bool idle() noexcept { return current.idle() && alarm.idle(); }
  };

  struct news {
    news(MPI_Comm c, MPI_Comm w, int t, int r, int n)
        : comm(c), calls(w), tag(t), rank(r), heard(static_cast<std::size_t>(n)), peers(static_cast<std::size_t>(n)) {
      hark();
    }
    news(news const&) = delete;
    news& operator=(news const&) = delete;

    MPI_Comm const comm;
    MPI_Comm const calls;
    int const tag;
    int const rank;

    // -- By any thread.
    std::array<call_record, records> own{};  // calls of this rank
    std::atomic<std::uint64_t> called{0}, finished{0};
    std::vector<std::atomic<std::uint64_t>> heard;  // of each rank: the last call of which a message came
    std::atomic<std::uint64_t> heard_from_all{0};
    std::atomic<std::uint64_t> told{0};              // the last call of which peers were told
    std::atomic<std::chrono::nanoseconds> waited{};  // in this call
    std::atomic<bool> faulty = false;
    std::atomic<bool> anyone_lost = false;
    std::mutex busy;

    // -- Under the lock.

    int ranks() const noexcept { return static_cast<int>(peers.size()); }
    notice const& by(int r) const noexcept {
      static notice const silence;
      if (r == rank) return self;
      auto const& last = peers[static_cast<std::size_t>(r)].last;
      return last ? *last : silence;
    }
    template <class F>
    void for_each_peer(F&& f) noexcept {
      for (int r = 0; r < ranks(); ++r)
        if (r != rank) f(r, peers[static_cast<std::size_t>(r)]);
    }

    void hark() noexcept {
      if (!mpi_survives()) MPI_Irecv(&received, sizeof received, MPI_BYTE, MPI_ANY_SOURCE, tag, comm, &hearing);
    }
    bool has_heard(MPI_Status& status) noexcept {
      int arrived = 0, code = MPI_SUCCESS;
      if (mpi_survives()) code = mpi_receive_any(comm, tag, &received, sizeof received, arrived, status);
      else if (hearing != MPI_REQUEST_NULL) code = MPI_Test(&hearing, &arrived, &status);
      if (mpi_is_loss(code)) look_for_lost();
      return code == MPI_SUCCESS && arrived != 0;
    }

    void listen() noexcept {
      MPI_Status status;
      while (has_heard(status)) {
        std::unique_ptr<notice>& last = peers[static_cast<std::size_t>(status.MPI_SOURCE)].last;
        if (last) *last = received;
        else last = std::make_unique<notice>(received);
        if (received.fault_code != no_fault) faulty.store(true, std::memory_order_release);
        hark();
      }
      if (!behind) return;
      behind = false;
      auto const text = copy_self();
      for (std::size_t r = 0; r < peers.size(); ++r)
        if (peers[r].stale) tell(static_cast<int>(r), text);
    }

    void look_for_lost() noexcept {
      if (!mpi_survives()) return;
      for (int const r : mpi_lost(comm)) anyone_lost = peers[static_cast<std::size_t>(r)].lost = true;
    }
    // Who waits for a rank that is lost, or for one that has given up because of it, waits no more.
    void end_calls_of_lost() noexcept {
      if (anyone_lost && !std::exchange(ended_calls, true)) mpi_revoke(calls);
    }

    std::shared_ptr<notice const> copy_self() const {
      auto const out = std::make_shared<notice>(self);
      out->finished = finished.load(std::memory_order_acquire);
      out->called = called.load(std::memory_order_acquire);
      for (std::uint64_t call = out->called; call > 0 && out->called - call < told_calls; --call)
        if (auto const words = read_call(own[call % records], call)) out->calls[call % told_calls] = {call, *words};
      return out;
    }
    void tell_all() noexcept {
      auto const text = copy_self();
      told = text->called;
      told_finished = text->finished;
      for_each_peer([&](int r, peer&) { tell(r, text); });
    }
    void tell(int to, std::shared_ptr<notice const> const& text) noexcept {
      peer& p = peers[static_cast<std::size_t>(to)];
      p.stale = !p.current.idle();
      behind |= p.stale;
      if (!p.stale) send(to, p.current, text);
    }
    void send(int to, letter& l, std::shared_ptr<notice const> const& text) noexcept {
      l.text = text;
      MPI_Issend(l.text.get(), sizeof *l.text, MPI_BYTE, to, tag, comm, &l.request);
    }

    void be_patient() noexcept {
      waited.store({}, std::memory_order_relaxed);
      told = nothing;
    }
    void has_waited(std::chrono::nanoseconds time) noexcept {
      auto const now = waited.load(std::memory_order_relaxed) + time;
      waited.store(now, std::memory_order_relaxed);
      look_for_lost();
      // Another thread may have ended a call while this one told of it.
      if (now >= patient && (told != called || told_finished != finished)) tell_all();
    }

    bool close() noexcept {
      if (hearing != MPI_REQUEST_NULL) {
        MPI_Cancel(&hearing);
        MPI_Wait(&hearing, MPI_STATUS_IGNORE);
      }
      return std::ranges::all_of(peers, [](peer& p) { return p.idle(); });
    }

    notice self{};  // but for its calls
    std::vector<peer> peers;
    notice received{};
    MPI_Request hearing = MPI_REQUEST_NULL;
    bool ended_calls = false;
    bool behind = false;  // somebody has stale news
    std::uint64_t told_finished = 0;
    std::size_t introduced = 0;
  };

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

  std::shared_ptr<news> news_;
};

}  // namespace tutti
