// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The notices of a rank and its peers, and the messages that carry them: the state behind mpi_board.
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
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/transport/board.hpp"
#include "tutti/transport/mpi/library.hpp"
#include "tutti/transport/mpi/ulfm.hpp"
#include "tutti/transport/notice.hpp"
#include "tutti/transport/system/call_watchdog.hpp"
#include "tutti/transport/system/process_watch.hpp"

namespace tutti::detail {

// A text in flight to a rank, which may not be listening. Letters of the same text share it.
template <class Text>
struct mpi_letter {
  std::shared_ptr<Text const> text{};
  MPI_Request request = MPI_REQUEST_NULL;

  // Sending to a rank that has ended fails, which is ignored.
  bool idle() noexcept {
    int done = 1;
    return request == MPI_REQUEST_NULL || MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
  }
};

// Members that every call writes are atomic, and written by one thread at a time. The lock guards all others; no thread holds
// it while it sleeps or waits.
struct mpi_notice_state {
  static constexpr auto no_fault = static_cast<error_code>(-1);
  static constexpr std::uint64_t nothing = ~std::uint64_t{0};
  // A rank sends notices only once it has waited this long, because a message to every peer is expensive: at most one
  // message for each 0.8 ms, however many peers there are.
  static constexpr std::chrono::milliseconds quiet_time(int ranks) {
    return std::max(std::chrono::milliseconds(50), std::chrono::milliseconds(ranks * 4LL / 5));
  }
  // Each notice carries the last calls of its rank; this rank itself remembers more.
  static constexpr std::size_t calls_in_notice = 8;
  // The MPI may still hold messages of a process that has ended. This rank polls between two sightings, so it receives them.
  static constexpr int enough_sightings = 3;

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
    error_code fault_code = no_fault;
    int fault_peer = -1;
    std::uint64_t leaves_instead_of = 0;      // as leaving_record
    circumstance when = circumstance::usual;  // of the fault, or of the reason to leave
    std::array<known_call, calls_in_notice> calls{};
    call_words awaited{};
    std::array<known_name, 32> names{};
    char text[1004]{};  // of the same
  };
  static_assert(std::is_trivially_copyable_v<notice>);
  // With a header of the MPI, within the smallest eager limit in use: 4 KiB, of Open MPI between processes of a node.
  static_assert(sizeof(notice) <= 4000);

  struct peer {
    std::unique_ptr<notice> last{};  // its last notice; null for most peers, because only ranks that wait long send any
    mpi_letter<notice> current{};    // the peer must have received it before the next one is sent
    mpi_letter<notice> alarm{};      // the fault that this rank has raised, if any
    bool stale = false;              // a newer notice is to be sent
    bool lost = false;               // its process has ended

    bool idle() noexcept { return current.idle() && alarm.idle(); }
  };
  // A peer whose process is watched, because the MPI may not report when it ends.
  struct neighbour {
    int rank;
    process_watch process;
    int sightings = 0;  // of its end
  };

  mpi_notice_state(MPI_Comm c, MPI_Comm w, int t, int r, int n, std::uint64_t i)
      : comm(c),
        calls(w),
        tag(t),
        rank(r),
        identity(i),
        known_call_of(static_cast<std::size_t>(n)),
        peers(static_cast<std::size_t>(n)) {
    post_receive();
  }
  mpi_notice_state(mpi_notice_state const&) = delete;
  mpi_notice_state& operator=(mpi_notice_state const&) = delete;
  // The board has already closed this, unless the construction of its transport failed.
  ~mpi_notice_state() {
    if (!mpi_is_finalized()) cancel_receive();
  }

  MPI_Comm const comm;
  MPI_Comm const calls;
  int const tag;
  int const rank;
  std::uint64_t const identity;

  // -- Accessed by any thread without the lock.
  std::array<call_record, records> own{};  // calls of this rank
  std::atomic<std::uint64_t> called{0}, finished{0};
  std::vector<std::atomic<std::uint64_t>> known_call_of;  // by rank: the last call from which a message came
  std::atomic<std::uint64_t> known_call_of_all{0};
  std::atomic<std::uint64_t> sent_call{0};         // the last call of which peers were sent a notice
  std::atomic<std::chrono::nanoseconds> waited{};  // in the current call
  std::atomic<bool> faulty = false;
  std::atomic<bool> anyone_lost = false;
  watched_calls inside_mpi{};
  std::mutex busy;

  // -- Under the lock.

  int ranks() const noexcept { return static_cast<int>(peers.size()); }
  notice const& by(int r) const noexcept {
    static notice const none;
    if (r == rank) return self;
    auto const& last = peers[static_cast<std::size_t>(r)].last;
    return last ? *last : none;
  }
  template <class F>
  void for_each_peer(F&& f) noexcept {
    for (int r = 0; r < ranks(); ++r)
      if (r != rank) f(r, peers[static_cast<std::size_t>(r)]);
  }

  // Whether there is memory for the notice of one more peer. If not, notices stay in the MPI.
  bool has_spare() noexcept {
    if (!spare) spare.reset(new (std::nothrow) notice);
    return spare != nullptr;
  }
  void post_receive() noexcept {
    if (!mpi_survives()) MPI_Irecv(&received, sizeof received, MPI_BYTE, MPI_ANY_SOURCE, tag, comm, &receiving);
  }
  bool receive_one(MPI_Status& status) noexcept {
    int arrived = 0, code = MPI_SUCCESS;
    if (mpi_survives()) code = mpi_receive_any(comm, tag, &received, sizeof received, arrived, status);
    else if (receiving != MPI_REQUEST_NULL) code = MPI_Test(&receiving, &arrived, &status);
    if (mpi_is_loss(code)) look_for_lost();
    return code == MPI_SUCCESS && arrived != 0;
  }

  void listen() noexcept {
    MPI_Status status;
    while (has_spare() && receive_one(status)) {
      // If a rank could not close a former communicator in order, the MPI may deliver its notice here.
      if (status.MPI_SOURCE >= ranks()) {
        post_receive();
        continue;
      }
      std::unique_ptr<notice>& last = peers[static_cast<std::size_t>(status.MPI_SOURCE)].last;
      if (!last) last = std::move(spare);
      *last = received;
      if (received.fault_code != no_fault) faulty.store(true, std::memory_order_release);
      // The other ranks of the same machine see that a process has ended, and tell those that do not.
      int const blamed = received.fault_peer;
      bool const tells_loss = received.fault_code == error_code::rank_lost && blamed >= 0;
      if (!mpi_survives() && tells_loss && blamed < ranks() && blamed != rank) note_lost(blamed);
      post_receive();
    }
    if (!spare) {  // the MPI must make progress, by which it learns of losses; a probe that finds a message makes none
      int there = 0;
      MPI_Iprobe(rank, tag, comm, &there, &status);
    }
    if (!behind) return;
    behind = false;
    auto const text = copy_self();
    for (std::size_t r = 0; r < peers.size(); ++r)
      if (peers[r].stale) send_to(static_cast<int>(r), text);
  }

  void look_for_lost() noexcept {
    if (mpi_survives()) return mpi_for_each_lost(comm, [&](int r) { note_lost(r); });
    if (anyone_lost) return;  // the launcher may be ending the others now, which are not to blame
    for (neighbour& n : neighbours)
      if (n.process.ended() && ++n.sightings == enough_sightings) note_lost(n.rank);
  }
  void note_lost(int r) noexcept {
    anyone_lost = peers[static_cast<std::size_t>(r)].lost = true;
    call_watchdog::saw_loss.store(true, std::memory_order_relaxed);
  }
  // Releases ranks that wait in the MPI for a lost rank, or for one that has given up because of it.
  void revoke_calls_if_lost() noexcept {
    if (anyone_lost && !std::exchange(calls_revoked, true)) mpi_revoke(calls);
  }

  void copy_self(notice& out) const noexcept {
    out = self;
    out.finished = finished.load(std::memory_order_acquire);
    out.called = called.load(std::memory_order_acquire);
    for (std::uint64_t call = out.called; call > 0 && out.called - call < calls_in_notice; --call)
      if (auto const words = read_call(own[call % records], call)) out.calls[call % calls_in_notice] = {call, *words};
  }
  // Null if there is no memory for it.
  std::shared_ptr<notice const> copy_self() const noexcept {
    try {
      auto const out = std::make_shared<notice>();
      copy_self(*out);
      return out;
    } catch (std::bad_alloc const&) {
      return {};
    }
  }
  void send_to_all() noexcept {
    auto const text = copy_self();
    if (text) {
      sent_call = text->called;
      sent_finished = text->finished;
    }
    for_each_peer([&](int r, peer&) { send_to(r, text); });
  }
  // Without a text, the peer gets a later one.
  void send_to(int to, std::shared_ptr<notice const> const& text) noexcept {
    peer& p = peers[static_cast<std::size_t>(to)];
    p.stale = !p.lost && (!text || !p.current.idle());
    behind |= p.stale;
    if (p.stale || p.lost) return;
    p.current.text = text;
    MPI_Issend(text.get(), sizeof *text, MPI_BYTE, to, tag, comm, &p.current.request);
  }
  // Sends the fault of this rank to all peers. There is one at most, so none waits for another to be received. Even if
  // the receiver computes, MPICH takes a message of this size at once, and delivers it without further calls of this rank. So does Open
  // MPI, but between processes of a node only the requests of a few messages (those that fit a fast box) complete at once, and the
  // others when the message is received.
  void send_alarms() noexcept {
    copy_self(*alarm);
    for_each_peer([&](int to, peer& p) {
      p.alarm.text = alarm;
      MPI_Isend(alarm.get(), sizeof *alarm, MPI_BYTE, to, tag, comm, &p.alarm.request);
    });
  }

  void restart_quiet_time() noexcept {
    waited.store({}, std::memory_order_relaxed);
    sent_call = nothing;
  }
  void has_waited(std::chrono::nanoseconds time) noexcept {
    auto const now = waited.load(std::memory_order_relaxed) + time;
    waited.store(now, std::memory_order_relaxed);
    look_for_lost();
    // Another thread may have ended a call while this one sent a notice of it.
    if (!ended && now >= quiet_time(ranks()) && (sent_call != called || sent_finished != finished)) send_to_all();
  }

  void cancel_receive() noexcept {
    if (receiving == MPI_REQUEST_NULL) return;
    MPI_Cancel(&receiving);
    MPI_Wait(&receiving, MPI_STATUS_IGNORE);
  }
  bool close() noexcept {
    cancel_receive();
    return std::ranges::all_of(peers, [](peer& p) { return p.idle(); });
  }

  notice self{};  // except for its calls
  std::vector<peer> peers;
  std::vector<neighbour> neighbours;
  // Allocated ahead, so that a rank without memory can raise a fault and learn of one.
  std::shared_ptr<notice> alarm = std::make_shared<notice>();
  std::unique_ptr<notice> spare = std::make_unique<notice>();
  notice received{};
  MPI_Request receiving = MPI_REQUEST_NULL;
  std::shared_ptr<mpi_notice_state> kept_for_ever{};  // itself, if notices are still in flight when the board closes
  bool acknowledged = false;                          // this rank has waited for the others to know the fault
  bool calls_revoked = false;
  bool behind = false;  // some peer has a stale notice
  bool ended = false;   // no further notices are sent because of waiting
  std::uint64_t sent_finished = 0;
  std::size_t names_known = 0;
};

}  // namespace tutti::detail
