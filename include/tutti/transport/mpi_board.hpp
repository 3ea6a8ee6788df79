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
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/wait.hpp"
#include "tutti/transport/mpi_ulfm.hpp"
#include "tutti/transport/notice.hpp"

namespace tutti {

// What a rank says of itself, whole in every message. Copies are handles of one board. A rank that computes outside of the
// library neither speaks nor hears, so of a peer is known what it said last, and what its messages said.
class mpi_board {
 public:
  // `calls`: where ranks may wait within the MPI, and are let go of once one of them is lost.
  mpi_board(MPI_Comm comm, MPI_Comm calls, int tag, int rank, int ranks)
      : news_(std::make_shared<news>(comm, calls, tag, rank, ranks)) {}

  // -- What the collective layer writes and reads.

  void begin(std::uint64_t sequence, call_words const& call, std::uint64_t place, std::memory_order) noexcept {
    news_->own[sequence % records] = {sequence, at_place(call, place)};
    news_->self.called = sequence;
    news_->waited = {};
    // A fault may have been told while this rank was elsewhere. Not in each call, for a look is a call of the MPI.
    if (sequence % 8 == 0) listen();
  }
  void finish(std::uint64_t sequence) noexcept {
    news_->self.finished = sequence;
    if (news_->told == sequence) tell_all();
  }
  std::uint64_t called(int rank) const noexcept {
    return rank == news_->rank ? news_->self.called : std::max(by(rank).called, heard(rank));
  }
  std::uint64_t finished(int rank) const noexcept {
    if (rank == news_->rank) return news_->self.finished;
    return std::max(by(rank).finished, heard(rank) > 0 ? heard(rank) - 1 : 0);
  }
  // A call from which this rank has accepted messages was the same as its own, though made elsewhere perhaps.
  std::optional<call_words> find(int rank, std::uint64_t sequence) const noexcept {
    if (rank == news_->rank) return find(news_->own, sequence);
    if (auto const told = find(by(rank).calls, sequence)) return told;
    auto const own = sequence <= heard(rank) ? find(news_->own, sequence) : std::nullopt;
    return own ? std::optional(at_place(*own, 0)) : own;
  }

  // The message that this rank waits for, beside all calls: peers are told once it has waited long.
  void await(call_words const& message) noexcept {
    news_->self.awaits = true;
    news_->self.awaited = message;
    news_->waited = {};
    news_->told = nothing;
  }
  void await_nothing() noexcept {
    news_->self.awaits = false;
    if (news_->told == news_->self.called) tell_all();
  }
  std::optional<call_words> awaited(int rank) const noexcept {
    notice const& n = by(rank);
    return n.awaits ? std::optional(n.awaited) : std::nullopt;
  }

  void introduce(std::uint32_t id, std::string_view text) noexcept {
    notice& self = news_->self;
    for (known_name const& entry : self.names)
      if (entry.id == id) return;
    known_name& entry = self.names[news_->introduced++ % self.names.size()];
    entry.id = id;
    copy(text, entry.text);
  }
  std::string name(int rank, std::uint32_t id) const {
    for (notice const* const n : std::initializer_list<notice const*>{&by(rank), &news_->self})
      for (known_name const& entry : n->names)
        if (entry.id == id) return entry.text;
    return "?";
  }

  // The first fault that is heard of counts. Of faults that are found at once, that of the lowest rank: all who have one
  // wait for the others' answers before they report it.
  void raise(fault const& f) noexcept {
    listen();
    if (faulty()) return;
    notice& self = news_->self;
    self.fault_peer = f.peer;
    copy(f.text, self.fault_text);
    self.fault_code = f.code;
    news_->faulty = true;
    auto const text = news_->copy_self();
    for_each_peer([&](int rank, peer& p) { news_->send(rank, p.alarm, text); });
    news_->end_calls_of_lost();
  }
  bool faulty() const noexcept { return news_->faulty; }
  void accept_fault() noexcept {
    news_->self.knows_fault = true;
    tell_all();
    listen_until([&](int rank) { return knows_fault(rank) || left(rank) || lost(rank); }, std::chrono::seconds(1));
    news_->end_calls_of_lost();
  }
  bool knows_fault(int rank) const noexcept { return by(rank).knows_fault; }
  std::optional<fault> find_fault() const {
    for (int r = 0; r < ranks(); ++r) {
      notice const& n = by(r);
      if (n.fault_code != no_fault) return fault{n.fault_code, r, n.fault_peer, n.fault_text};
    }
    return {};
  }

  // -- What the transport does with it.

  // A message of call `sequence`, which is this rank's too, came from a peer.
  void hear(int rank, std::uint64_t sequence) noexcept {
    std::uint64_t& heard = news_->peers[static_cast<std::size_t>(rank)].heard;
    if (sequence > heard) heard = sequence;
  }
  // The last call of which a message came from a peer.
  std::uint64_t heard(int rank) const noexcept { return std::max(of(rank).heard, news_->heard_from_all); }
  // Every peer has begun the call that this rank is in.
  void hear_all() noexcept { news_->heard_from_all = news_->self.called; }
  std::uint64_t sequence() const noexcept { return news_->self.called; }

  // Takes what has come, and sends again what could not be sent.
  void listen() noexcept { news_->listen(); }
  // Sleeps for a little, the longer the more of this call was slept away.
  void sleep() noexcept {
    auto const time = std::clamp<std::chrono::nanoseconds>(news_->waited, std::chrono::microseconds(20), nap_length);
    std::this_thread::sleep_for(time);
    news_->waited += time;
    look_for_lost();
    tell_if_patient();
  }
  // The same for who sleeps elsewhere, and calls this at least every nap_length.
  void heed() noexcept {
    listen();
    look_for_lost();
    news_->waited += nap_length;
    tell_if_patient();
  }
  // Hears, for a moment, what peers have to say that have come to the same call.
  void ask() noexcept {
    if (news_->told != news_->self.called) tell_all();
    listen_until(
        [&](int rank) { return faulty() || by(rank).called >= news_->self.called || left(rank) || lost(rank); },
        std::chrono::milliseconds(200));
  }
  bool left(int rank) const noexcept { return by(rank).left; }
  // Whether its process has ended, as far as the MPI has said so.
  bool lost(int rank) const noexcept { return of(rank).lost; }
  bool anyone_lost() const noexcept { return news_->anyone_lost; }
  void look_for_lost() noexcept { news_->look_for_lost(); }
  // Where all leave together nobody needs to know: peers are told once this rank has waited for them long.
  void leave() noexcept {
    news_->self.left = true;
    news_->waited = {};
    news_->told = nothing;
  }
  // Where this rank will not listen until others leave too.
  void leave_at_once() noexcept {
    news_->self.left = true;
    tell_all();
  }
  // Whether all that this rank has said was received.
  bool delivered() noexcept {
    listen();
    return !news_->behind && std::ranges::all_of(news_->peers, [](peer& p) { return p.idle(); });
  }
  // Whether all that this rank has to say is on its way.
  bool has_told() noexcept {
    listen();
    return !news_->behind;
  }
  // Ends the board. False where messages are still on their way: then `abandon` leaves their memory to the MPI.
  bool close() noexcept { return news_->close(); }
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
    std::array<known_name, 32> names{};
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
    std::uint64_t heard = 0;         // the last call of which a message came
    letter current{};
    letter alarm{};      // the fault that this rank has found, at most one
    bool stale = false;  // there is something newer to say
    bool lost = false;   // its process has ended

    bool idle() noexcept { return current.idle() && alarm.idle(); }
  };

  struct news {
    news(MPI_Comm c, MPI_Comm w, int t, int r, int n)
        : comm(c), calls(w), tag(t), rank(r), peers(static_cast<std::size_t>(n)) {
      hark();
    }
    news(news const&) = delete;
    news& operator=(news const&) = delete;

    void hark() noexcept {
      if (!mpi_survives()) MPI_Irecv(&heard, sizeof heard, MPI_BYTE, MPI_ANY_SOURCE, tag, comm, &hearing);
    }
    bool has_heard(MPI_Status& status) noexcept {
      int arrived = 0, code = MPI_SUCCESS;
      if (mpi_survives()) code = mpi_receive_any(comm, tag, &heard, sizeof heard, arrived, status);
      else if (hearing != MPI_REQUEST_NULL) code = MPI_Test(&hearing, &arrived, &status);
      if (mpi_is_loss(code)) look_for_lost();
      return code == MPI_SUCCESS && arrived != 0;
    }

    void listen() noexcept {
      MPI_Status status;
      while (has_heard(status)) {
        std::unique_ptr<notice>& last = peers[static_cast<std::size_t>(status.MPI_SOURCE)].last;
        if (last) *last = heard;
        else last = std::make_unique<notice>(heard);
        faulty |= heard.fault_code != no_fault;
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
      for (std::uint64_t call = self.called; call > 0 && self.called - call < told_calls; --call)
        out->calls[call % told_calls] = own[call % records];
      return out;
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

    bool close() noexcept {
      if (hearing != MPI_REQUEST_NULL) {
        MPI_Cancel(&hearing);
        MPI_Wait(&hearing, MPI_STATUS_IGNORE);
      }
      return std::ranges::all_of(peers, [](peer& p) { return p.idle(); });
    }

    MPI_Comm comm;
    MPI_Comm calls;
    int tag;
    int rank;
    std::array<known_call, records> own{};  // calls of this rank
    notice self{};
    std::vector<peer> peers;
    notice heard{};
    MPI_Request hearing = MPI_REQUEST_NULL;
    std::uint64_t heard_from_all = 0;
    bool faulty = false;
    bool anyone_lost = false;
    bool ended_calls = false;
    bool behind = false;                // somebody has stale news
    std::uint64_t told = 0;             // the last call of which peers were told
    std::chrono::nanoseconds waited{};  // in this call
    std::size_t introduced = 0;
  };

  void tell_if_patient() noexcept {
    if (news_->waited >= patient && news_->told != news_->self.called) tell_all();
  }

  int ranks() const noexcept { return static_cast<int>(news_->peers.size()); }
  peer const& of(int rank) const noexcept { return news_->peers[static_cast<std::size_t>(rank)]; }
  notice const& by(int rank) const noexcept {
    static notice const silence;
    if (rank == news_->rank) return news_->self;
    return of(rank).last ? *of(rank).last : silence;
  }

  void tell_all() noexcept {
    news_->told = news_->self.called;
    auto const text = news_->copy_self();
    for_each_peer([&](int rank, peer&) { news_->tell(rank, text); });
  }
  template <class F>
  void for_each_peer(F&& f) noexcept {
    for (int r = 0; r < ranks(); ++r)
      if (r != news_->rank) f(r, news_->peers[static_cast<std::size_t>(r)]);
  }

  // Until `enough(rank)` of all peers, or for `most`.
  template <class Enough>
  void listen_until(Enough&& enough, std::chrono::nanoseconds most) noexcept {
    auto const look = [&] {
      listen();
      for (int r = 0; r < ranks(); ++r)
        if (r != news_->rank && !enough(r)) return progress::stuck;
      return progress::done;
    };
    wait_until_done(look, patience_sharing_cores, deadline::after(most), [](auto const&) {
      std::this_thread::sleep_for(nap_length);
      return true;
    });
  }

  template <std::size_t N>
  static std::optional<call_words> find(std::array<known_call, N> const& calls, std::uint64_t sequence) noexcept {
    known_call const& call = calls[sequence % N];
    if (sequence == 0 || call.sequence != sequence) return {};
    return call.words;
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
