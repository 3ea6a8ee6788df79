// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between the ranks of an MPI communicator: a channel for every peer and track, each with a window of slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mpi.h>
#include <new>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/arrival.hpp"
#include "tutti/transport/mpi/board.hpp"
#include "tutti/transport/mpi/library.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// A channel is opened when it is first used: the receiver keeps a window of receives posted, and the sender has as many
// slots. A peer in a later call has received all that it got in those before. Of a peer that was not heard of for half a
// window of messages, each further half begins with a synchronous one, which ends only when its receive has been matched,
// and messages are matched in order: so a sender never runs far ahead, and no message says so.
// An error of the MPI is a fault on the board like any other: the data path throws nothing.
class mpi_channels {
 public:
  static constexpr std::size_t slice_bytes = 64 * 1024;

  mpi_channels(MPI_Comm comm, mpi_board const& board, int rank, int ranks, int tracks)
      : comm_(comm),
        board_(board),
        rank_(rank),
        ranks_(ranks),
        tracks_(tracks),
        outgoing_(static_cast<std::size_t>(ranks * tracks)),
        incoming_(static_cast<std::size_t>(ranks * tracks)) {}
  mpi_channels(mpi_channels const&) = delete;
  mpi_channels& operator=(mpi_channels const&) = delete;

  // -- Sending: claim a place, write to it, publish. Null while the window is full.
  std::byte* claim(int to, int track) noexcept {
    sender& out = outgoing(to, track);
    if (!out.slots && !open(out.slots, to)) return nullptr;
    if (out.published - out.sent == window && !(advance(out, to), out.published - out.sent < window)) return nullptr;
    return out.slots.get()[out.published % window].data;
  }
  void publish(int to, int track, std::size_t bytes, bool more, std::uint32_t tag) noexcept {
    sender& out = outgoing(to, track);
    if (!std::exchange(out.listed, true)) busy_.push_back({&out, to});
    std::uint64_t const unheard = out.published - out.confirmed_by(board_, to);
    head const front{tag, static_cast<std::uint32_t>(bytes) << 1 | std::uint32_t{more}, board_.sequence()};
    send(out, to, track, front, bytes, unheard);
  }
  // The same beside all calls: none waits for the message, and it says nothing of them. `awaited`: the receiver waits for
  // it; of others the sender must bound how many there are.
  void publish_outside_calls(int to, int track, std::size_t bytes, bool awaited, std::uint32_t tag) noexcept {
    sender& out = outgoing(to, track);
    send(out, to, track, {tag, static_cast<std::uint32_t>(bytes) << 1, 0}, bytes, awaited ? out.published : 0);
  }
  std::uint64_t published(int to, int track) noexcept { return outgoing(to, track).published; }
  // Whether the first `count` messages of a channel have left.
  bool has_left(int to, int track, std::uint64_t count) noexcept {
    sender& out = outgoing(to, track);
    return out.sent >= count || (advance(out, to), out.sent >= count);
  }
  // Whether all of all channels have.
  bool idle() noexcept {
    for (int track = 0; track < tracks_; ++track)
      for (int to = 0; to < ranks_; ++to)
        if (!has_left(to, track, published(to, track))) return false;
    return true;
  }
  // Whether all that was published has left, so that nobody needs this rank's help to get it.
  bool all_sent() noexcept {
    std::erase_if(busy_, [&](busy const& b) { return advance(*b.out, b.to) && std::exchange(b.out->listed, false); });
    return busy_.empty();
  }

  // -- Receiving: look, use the view, release.
  arrival peek(int from, int track, std::uint32_t tag) noexcept {
    receiver& in = incoming(from, track);
    if (!in.slots && !(open(in.slots, from) && post_all(in, from, track))) return {};
    slot& here = in.slots.get()[in.taken % window];
    // A receive that the loss of a rank has ended is no request any more.
    bool const ended = mpi_survives() && here.request == MPI_REQUEST_NULL;
    if (!in.arrived && (ended || !done(here.request, from))) return {};
    in.arrived = true;
    bool const ours = here.front.tag == tag;
    if (ours) board_.hear(from, here.front.sequence);
    return {ours ? arrival::message : arrival::mismatched, here.data, here.front.bytes_and_more >> 1,
            (here.front.bytes_and_more & 1) != 0};
  }
  void release(int from, int track) noexcept {
    receiver& in = incoming(from, track);
    in.arrived = false;
    post(in, in.taken++ % window, from, track);
  }

  // -- Closing.

  // Receives what no receive was posted for, farewells among it.
  void discard() noexcept {
    if (!remains_) remains_.reset(new (std::nothrow) slot);
    while (remains_ && (remains_->request == MPI_REQUEST_NULL || done(remains_->request, rank_))) {
      int there = 0;
      MPI_Status found;
      if (!check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &there, &found), "MPI_Iprobe", rank_) || there == 0)
        return;
      check(MPI_Irecv(&remains_->front, sizeof(head) + slice_bytes, MPI_BYTE, found.MPI_SOURCE, found.MPI_TAG, comm_,
                      &remains_->request),
            "MPI_Irecv", found.MPI_SOURCE);
    }
  }
  // Messages of a rank are matched in order: who has its farewell will get nothing else from it, and a communicator that
  // the MPI makes in the place of this one neither.
  void bid_farewell() noexcept {
    for (int r = 0; r < ranks_; ++r)
      if (r != rank_)
        check(MPI_Issend(nullptr, 0, MPI_BYTE, r, farewell_tag(tracks_), comm_, &farewells_.emplace_back()),
              "MPI_Issend", r);
  }
  bool farewells_are_taken() noexcept {
    std::erase_if(farewells_, [&](MPI_Request& r) { return r == MPI_REQUEST_NULL || done(r, rank_); });
    return farewells_.empty();
  }
  static int farewell_tag(int tracks) noexcept { return tracks + 1; }

  // Takes back the receives that are posted. What a sender that is elsewhere has begun to fill stays with the MPI.
  void cancel_receives(deadline until) noexcept {
    for (receiver& in : incoming_) in.cancel(until);
    while (remains_ && remains_->request != MPI_REQUEST_NULL && !done(remains_->request, rank_))
      if (until.passed()) static_cast<void>(remains_.release());
  }
  // What has not left stays with the MPI.
  void abandon_sends() noexcept {
    for (sender& out : outgoing_) out.abandon();
  }

  // -- Calls of the MPI, whose errors are faults; but where a rank has ended, who waits finds out which. Whether there was
  // none.
  bool check(int code, char const* call, int peer) noexcept {
    if (code == MPI_SUCCESS) return true;
    if (mpi_is_loss(code)) board_.look_for_lost();
    else fail(peer, [&] { return mpi_text(call, code); });
    return false;
  }
  bool done(MPI_Request& request, int peer) noexcept {
    int finished = 0;
    return check(MPI_Test(&request, &finished, MPI_STATUS_IGNORE), "MPI_Test", peer) && finished != 0;
  }

 private:
  static constexpr std::size_t window = 16;

  // What goes before the bytes of a message.
  struct head {
    std::uint32_t tag;
    std::uint32_t bytes_and_more;
    std::uint64_t sequence;
  };
  struct alignas(cache_line) slot {
    MPI_Request request = MPI_REQUEST_NULL;
    std::byte unused[cache_line - sizeof(MPI_Request) - sizeof(head)];
    head front;
    std::byte data[slice_bytes];
  };
  static_assert(offsetof(slot, data) == cache_line && offsetof(slot, data) == offsetof(slot, front) + sizeof(head));

  struct sender {
    std::unique_ptr<slot[]> slots;
    std::uint64_t published = 0;
    std::uint64_t sent = 0;
    bool listed = false;          // among the busy ones
    std::uint64_t confirmed = 0;  // the receiver has taken these
    std::uint64_t marked = 0;     // and these, once it is heard of in a call after `marked_in`
    std::uint64_t marked_in = 0;

    std::uint64_t confirmed_by(mpi_board const& board, int to) noexcept {
      if (board.heard(to) > marked_in) {
        confirmed = marked;
        marked = published;
        marked_in = board.sequence();
      }
      return confirmed;
    }
    void abandon() noexcept {
      if (sent < published) static_cast<void>(slots.release());
    }
  };
  struct receiver {
    std::unique_ptr<slot[]> slots;
    std::uint64_t taken = 0;
    bool arrived = false;  // the next message

    void cancel(deadline until) noexcept {
      if (!slots) return;
      for (std::size_t place = 0; place < window; ++place) {
        MPI_Request& r = slots.get()[place].request;
        if (r == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&r);
        int ended = 0;
        do MPI_Test(&r, &ended, MPI_STATUS_IGNORE);
        while (ended == 0 && !until.passed());
        if (ended == 0) static_cast<void>(slots.release());
        if (!slots) return;
      }
    }
  };
  struct busy {
    sender* out;
    int to;
  };

  sender& outgoing(int to, int track) noexcept { return outgoing_[static_cast<std::size_t>(track * ranks_ + to)]; }
  receiver& incoming(int from, int track) noexcept {
    return incoming_[static_cast<std::size_t>(track * ranks_ + from)];
  }

  template <class Text>
  [[gnu::cold]] void fail(int peer, Text&& text) noexcept {
    try {
      board_.raise({static_cast<int>(error_code::system), rank_, peer,
                    peer == rank_ ? join({"at rank ", rank_, ", ", text()})
                                  : join({"between rank ", rank_, " and rank ", peer, ", ", text()})});
    } catch (...) {
      board_.raise({static_cast<int>(error_code::system), rank_, peer, "MPI has failed"});
    }
  }

  [[gnu::cold]] bool open(std::unique_ptr<slot[]>& slots, int peer) noexcept {
    slots.reset(new (std::nothrow) slot[window]);
    if (!slots) fail(peer, [] { return "there is no memory for a channel"; });
    return slots != nullptr;
  }
  bool post(receiver& in, std::size_t place, int from, int track) noexcept {
    slot& here = in.slots.get()[place];
    return check(MPI_Irecv(&here.front, sizeof(head) + slice_bytes, MPI_BYTE, from, track, comm_, &here.request),
                 "MPI_Irecv", from);
  }
  [[gnu::cold]] bool post_all(receiver& in, int from, int track) noexcept {
    for (std::size_t place = 0; place < window; ++place)
      if (!post(in, place, from, track)) return false;
    return true;
  }
  void send(sender& out, int to, int track, head const& front, std::size_t bytes, std::uint64_t unheard) noexcept {
    slot& here = out.slots.get()[out.published++ % window];
    here.front = front;
    auto const begin = unheard != 0 && unheard % (window / 2) == 0 ? MPI_Issend : MPI_Isend;
    check(begin(&here.front, static_cast<int>(sizeof(head) + bytes), MPI_BYTE, to, track, comm_, &here.request),
          "MPI_Isend", to);
  }
  // Whether all has left.
  bool advance(sender& out, int to) noexcept {
    while (out.sent < out.published && done(out.slots.get()[out.sent % window].request, to)) ++out.sent;
    return out.sent == out.published;
  }

  MPI_Comm comm_;
  mpi_board board_;
  int rank_;
  int ranks_;
  int tracks_;
  std::vector<sender> outgoing_;
  std::vector<receiver> incoming_;
  std::vector<busy> busy_;  // channels with messages that have not left
  std::unique_ptr<slot> remains_;
  std::vector<MPI_Request> farewells_;
};

}  // namespace tutti::detail
