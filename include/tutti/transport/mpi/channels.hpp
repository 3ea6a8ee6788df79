// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between the ranks of an MPI communicator: a channel per peer and track, each with a window of slots.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mpi.h>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/arrival.hpp"
#include "tutti/transport/mpi/board.hpp"
#include "tutti/transport/mpi/channel.hpp"
#include "tutti/transport/mpi/communicator.hpp"
#include "tutti/transport/mpi/library.hpp"
#include "tutti/transport/mpi/neighbours.hpp"
#include "tutti/transport/mpi/ranks.hpp"
#include "tutti/transport/notice.hpp"
#include "tutti/transport/system/call_watchdog.hpp"

namespace tutti::detail {

// A channel opens when it is first used: the receiver keeps a window of receives posted, and the sender has as many slots. For a peer
// with which it has exchanged nothing, a rank holds a single pointer, because in most algorithms it has few peers among many ranks.
// Pages of slots that no message has used take no memory.
//
// Flow control needs no messages of its own. A peer that is in a later call has received everything sent to it in earlier ones. If
// a sender has sent half a window without such confirmation, the first message of each further half is synchronous: it
// completes only once its receive is matched, and messages are matched in order, so the sender cannot run far ahead.
// An error of the MPI becomes a fault on the board; the data path throws nothing.
//
// One thread may use the tracks of calls while another uses those of messages outside calls. They share the table of peers
// and the note for the watchdog: if one thread hangs, the watchdog sees it only once the other has stopped polling.
class mpi_channels : public mpi_ranks {
 public:
  static constexpr std::size_t slice_bytes = mpi_channel::slice_bytes;

  mpi_channels(mpi_communicator own, int tracks, std::chrono::nanoseconds limit,
               std::vector<mpi_neighbour> const& known)
      : mpi_ranks(std::move(own), tracks, limit, known), peers_(static_cast<std::size_t>(ranks_)) {}

  // -- Sending: claim a place, write to it, publish. Null while the window is full.
  std::byte* claim(int to, int track, std::size_t, std::size_t) noexcept {
    if (!knows(to) && !make_channels(to)) [[unlikely]]
      return nullptr;
    sender& out = outgoing(to, track);
    if (!out.slots && !open(out.slots, to)) return nullptr;
    if (out.published - out.sent == window && !(advance(out, to), out.published - out.sent < window)) return nullptr;
    return out.slots->all[out.published % window].data;
  }
  void publish(int to, int track, std::size_t bytes, bool more, std::uint32_t tag) noexcept {
    sender& out = outgoing(to, track);
    if (!std::exchange(out.listed, true)) {
      out.to = to;
      out.next_listed = std::exchange(listed_, &out);
    }
    std::uint64_t const unconfirmed = out.published - out.confirmed_by(board_, to);
    mpi_channel::head const front{tag, static_cast<std::uint32_t>(bytes) << 1 | std::uint32_t{more}, board_.sequence()};
    send(out, to, track, front, bytes, unconfirmed);
  }
  // The same for a message outside calls, which no call waits for, and which does not show in which call this rank is. `awaited`: the
  // receiver is known to receive it. The caller must bound the number of others in flight.
  void publish_outside_calls(int to, int track, std::size_t bytes, bool awaited, std::uint32_t tag) noexcept {
    strays_.store(true, std::memory_order_relaxed);
    sender& out = outgoing(to, track);
    send(out, to, track, {tag, static_cast<std::uint32_t>(bytes) << 1, 0}, bytes, awaited ? out.published : 0);
  }
  std::uint64_t published(int to, int track) noexcept { return knows(to) ? outgoing(to, track).published : 0; }
  // Whether the first `count` messages of a channel have left.
  bool has_left(int to, int track, std::uint64_t count) noexcept {
    if (!knows(to)) return count == 0;
    sender& out = outgoing(to, track);
    return out.sent >= count || (advance(out, to), out.sent >= count);
  }
  // Whether all messages of calls have left, so that no receiver depends on this rank to poll.
  bool all_sent() noexcept {
    for (sender** next = &listed_; *next != nullptr;) {
      sender& out = **next;
      if (!advance(out, out.to)) {
        next = &out.next_listed;
      } else {
        out.listed = false;
        *next = out.next_listed;
      }
    }
    return listed_ == nullptr;
  }

  // -- Receiving: peek, use the view, release.
  arrival peek(int from, int track, std::uint32_t tag) noexcept {
    if (!knows(from) && !make_channels(from)) [[unlikely]]
      return {};
    receiver& in = incoming(from, track);
    if (!in.slots && !(open(in.slots, from) && post_all(in, from, track))) return {};
    std::size_t const place = in.taken % window;
    slot& here = in.slots->all[place];
    MPI_Request& request = in.slots->requests[place];
    // If a rank was lost, the MPI may have ended the receive without a message.
    bool const ended = mpi_survives() && request == MPI_REQUEST_NULL;
    if (!in.arrived && (ended || !done(request, from))) return {};
    in.arrived = true;
    bool const ours = here.front.tag == tag;
    if (ours) board_.note_call(from, here.front.sequence);
    return {ours ? arrival::message : arrival::mismatched, here.data, here.front.bytes_and_more >> 1,
            (here.front.bytes_and_more & 1) != 0};
  }
  void release(int from, int track) noexcept {
    receiver& in = incoming(from, track);
    in.arrived = false;
    post(in, in.taken++ % window, from, track);
  }

 protected:
  // -- Closing.

  // Whether all messages of all channels have left.
  bool idle() noexcept {
    for (known_peer const& peer : known_)
      for (int track = 0; track < tracks_; ++track)
        if (!advance(peer.ends.get()[track].out, peer.rank)) return false;
    return true;
  }
  // Receives messages that have no posted receive, farewells included, and drops them.
  void discard() noexcept {
    if (!unexpected_) unexpected_.reset(new (std::nothrow) mpi_channel::lone_slot);
    while (unexpected_ && (unexpected_->request == MPI_REQUEST_NULL || done(unexpected_->request, rank_))) {
      int there = 0;
      MPI_Status found;
      if (!check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator(), &there, &found), "MPI_Iprobe", rank_) ||
          there == 0)
        return;
      check(MPI_Irecv(&unexpected_->place.front, sizeof(mpi_channel::head) + slice_bytes, MPI_BYTE, found.MPI_SOURCE,
                      found.MPI_TAG, communicator(), &unexpected_->request),
            "MPI_Irecv", found.MPI_SOURCE);
    }
  }
  // Messages of a rank are matched in order, so nothing follows its farewell: neither on this communicator nor on one that the
  // MPI creates later with the same identifier.
  void send_farewells() noexcept {
    try {
      farewells_.reserve(static_cast<std::size_t>(ranks_));
    } catch (std::bad_alloc const&) {
      return fail(rank_, [] { return "no memory to close a communicator in order"; });
    }
    for (int r = 0; r < ranks_; ++r)
      if (r != rank_)
        check(MPI_Issend(nullptr, 0, MPI_BYTE, r, farewell_tag(), communicator(), &farewells_.emplace_back()),
              "MPI_Issend", r);
  }
  bool farewells_received() noexcept {
    std::erase_if(farewells_, [&](MPI_Request& r) { return r == MPI_REQUEST_NULL || done(r, rank_); });
    return farewells_.empty();
  }

  // Cancels the posted receives. A slot that a stalled sender has begun to fill is left to the MPI.
  void cancel_receives(deadline until) noexcept {
    for (known_peer const& peer : known_)
      for (int track = 0; track < tracks_; ++track) peer.ends.get()[track].in.cancel(until);
    auto const test = [&] { return done(unexpected_->request, rank_) ? progress::done : progress::stuck; };
    if (unexpected_ && unexpected_->request != MPI_REQUEST_NULL &&
        !wait_until_done(test, patience_sharing_cores, until, sleep_for(nap_length)))
      static_cast<void>(unexpected_.release());
  }
  // Leaves the memory of messages that have not left to the MPI.
  void abandon_sends() noexcept {
    for (known_peer const& peer : known_)
      for (int track = 0; track < tracks_; ++track) peer.ends.get()[track].out.abandon();
  }

  // -- Calls of the MPI. Raises an error as a fault, except the loss of a rank, which the waiting caller identifies. Returns
  // whether the call succeeded.
  bool check(int code, char const* call, int peer) noexcept {
    if (code == MPI_SUCCESS) return true;
    if (mpi_is_loss(code)) board_.look_for_lost();
    else if (!finds_ended_process()) fail(peer, [&] { return mpi_text(call, code); });
    return false;
  }
  bool done(MPI_Request& request, int peer) noexcept {
    int finished = 0;
    call_note::scope const inside(note(), "MPI_Test");
    return check(MPI_Test(&request, &finished, MPI_STATUS_IGNORE), "MPI_Test", peer) && finished != 0;
  }

 private:
  using slot = mpi_channel::slot;
  using slot_window = mpi_channel::slot_window;
  using sender = mpi_channel::sender;
  using receiver = mpi_channel::receiver;
  static constexpr std::size_t window = mpi_channel::window;

  struct known_peer {
    int rank;
    std::unique_ptr<mpi_channel::ends[]> ends;
  };

  mpi_channel::ends* ends_with(int peer) const noexcept {
    return peers_[static_cast<std::size_t>(peer)].load(std::memory_order_acquire);
  }
  call_note& note() const noexcept { return board_.inside_mpi().notes[watched_calls::data]; }

  bool knows(int peer) const noexcept { return ends_with(peer) != nullptr; }
  sender& outgoing(int to, int track) noexcept { return ends_with(to)[track].out; }
  receiver& incoming(int from, int track) noexcept { return ends_with(from)[track].in; }

  // Whether a call of the MPI may have failed because a rank was lost. A connection breaks a moment before the process has ended, and
  // ranks that do not see the process are told by those that do, once these have waited for it.
  [[gnu::cold]] bool finds_ended_process() noexcept {
    auto const until = deadline::after(std::chrono::milliseconds(300));
    while (!mpi_survives() && !board_.anyone_lost() && !board_.faulty() && !until.passed()) {
      std::this_thread::sleep_for(nap_length);
      board_.look_for_lost();
      board_.listen();
    }
    return !mpi_survives() && board_.anyone_lost();
  }
  template <class Text>
  [[gnu::cold]] void fail(int peer, Text&& text) noexcept {
    auto const what = [&] {
      return peer == rank_ ? join({"on rank ", rank_, ": ", text()})
                           : join({"between rank ", rank_, " and rank ", peer, ": ", text()});
    };
    board_.raise({error_code::system, rank_, peer, text_or(what, "out of memory")});
  }

  [[gnu::cold]] void fail_without_memory(int peer) noexcept {
    fail(rank_, [&] { return join({"no memory for a channel to or from rank ", peer}); });
  }
  [[gnu::cold]] bool make_channels(int peer) noexcept {
    try {
      std::lock_guard const lock(making_);
      if (knows(peer)) return true;
      known_.push_back({peer, std::make_unique<mpi_channel::ends[]>(static_cast<std::size_t>(tracks_))});
      peers_[static_cast<std::size_t>(peer)].store(known_.back().ends.get(), std::memory_order_release);
    } catch (std::bad_alloc const&) {
      fail_without_memory(peer);
    }
    return knows(peer);
  }
  [[gnu::cold]] bool open(std::unique_ptr<slot_window>& slots, int peer) noexcept {
    slots.reset(new (std::nothrow) slot_window);
    if (!slots) fail_without_memory(peer);
    return slots != nullptr;
  }
  bool post(receiver& in, std::size_t place, int from, int track) noexcept {
    call_note::scope const inside(note(), "MPI_Irecv");
    return check(MPI_Irecv(&in.slots->all[place].front, sizeof(mpi_channel::head) + slice_bytes, MPI_BYTE, from, track,
                           communicator(), &in.slots->requests[place]),
                 "MPI_Irecv", from);
  }
  [[gnu::cold]] bool post_all(receiver& in, int from, int track) noexcept {
    for (std::size_t place = 0; place < window; ++place)
      if (!post(in, place, from, track)) return false;
    return true;
  }
  void send(sender& out, int to, int track, mpi_channel::head const& front, std::size_t bytes,
            std::uint64_t unconfirmed) noexcept {
    std::size_t const place = out.published++ % window;
    slot& here = out.slots->all[place];
    here.front = front;
    auto const begin = unconfirmed != 0 && unconfirmed % (window / 2) == 0 ? MPI_Issend : MPI_Isend;
    call_note::scope const inside(note(), "MPI_Isend");
    check(begin(&here.front, static_cast<int>(sizeof(mpi_channel::head) + bytes), MPI_BYTE, to, track, communicator(),
                &out.slots->requests[place]),
          "MPI_Isend", to);
  }
  // Whether all has left.
  bool advance(sender& out, int to) noexcept {
    while (out.sent < out.published && done(out.slots->requests[out.sent % window], to)) ++out.sent;
    return out.sent == out.published;
  }

  std::vector<std::atomic<mpi_channel::ends*>> peers_;  // by rank: the ends on every track; null before the first use
  std::mutex making_;
  std::vector<known_peer> known_;  // peers whose channels exist; grows under the lock, and is walked only while closing
  sender* listed_ = nullptr;       // the first of the channels with messages of calls that have not left
  std::unique_ptr<mpi_channel::lone_slot> unexpected_;
  std::vector<MPI_Request> farewells_;
};

}  // namespace tutti::detail
