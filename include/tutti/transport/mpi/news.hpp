// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a rank and its peers have said of themselves where nobody can read a peer's memory, and the messages that say it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mpi.h>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/transport/board.hpp"
#include "tutti/transport/mpi/ulfm.hpp"
#include "tutti/transport/notice.hpp"

namespace tutti::detail {

// What every call writes is one thread's at a time and atomic; all else is under the lock, which nobody keeps while he sleeps
// or waits.
struct mpi_news {
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
    letter current{};
    letter alarm{};      // the fault that this rank has found, at most one
    bool stale = false;  // there is something newer to say
    bool lost = false;   // its process has ended

    bool idle() noexcept { return current.idle() && alarm.idle(); }
  };

  mpi_news(MPI_Comm c, MPI_Comm w, int t, int r, int n)
      : comm(c), calls(w), tag(t), rank(r), heard(static_cast<std::size_t>(n)), peers(static_cast<std::size_t>(n)) {
    hark();
  }
  mpi_news(mpi_news const&) = delete;
  mpi_news& operator=(mpi_news const&) = delete;

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

}  // namespace tutti::detail
