// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks are those of an MPI communicator, on one machine or many: slices travel as messages.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mpi.h>
#include <new>
#include <sched.h>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/absence.hpp"
#include "tutti/transport/arrival.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/mpi_board.hpp"
#include "tutti/transport/mpi_library.hpp"
#include "tutti/transport/mpi_meeting.hpp"

namespace tutti {

struct mpi_collectives;

// A channel is opened when it is first used: the receiver keeps a window of receives posted, and the sender has as many
// slots. Every half of a window a message is sent synchronously, which ends only when its receive has been matched, and
// messages are matched in order: so a sender never runs further ahead than a window, and no message says so.
// An error of the MPI is a fault on the board like any other: the data path throws nothing.
class mpi {
 public:
  static constexpr std::string_view name = "mpi";
  static constexpr std::size_t slice_bytes = 64 * 1024;

  // All ranks of `ranks` call it, and all destroy it; `limit`: how long they may wait for each other there.
  // Throws error: timeout, bad_argument, system.
  [[gnu::cold]] mpi(MPI_Comm ranks, int tracks, std::chrono::nanoseconds limit)
      : comm_(ranks, deadline::after(limit)),
        rank_(comm_.rank()),
        ranks_(comm_.size()),
        tracks_(tracks),
        limit_(limit),
        any_thread_(takes_any_thread()),
        waits_(have_cores() ? patience_with_cores : patience_sharing_cores),
        board_(comm_.get(), tracks, rank_, ranks_),
        outgoing_(static_cast<std::size_t>(ranks_ * tracks)),
        incoming_(static_cast<std::size_t>(ranks_ * tracks)) {}
  mpi(mpi const&) = delete;
  mpi& operator=(mpi const&) = delete;
  ~mpi() {
    if (mpi_is_finalized()) return;
    bool const orderly = meet_to_close();
    auto const last_moment = deadline::after(std::chrono::milliseconds(orderly ? 1000 : 10));
    for (receiver& in : incoming_) in.cancel(last_moment);
    if (board_.close() && orderly) return;
    std::fprintf(stderr,
                 "tutti: rank %d closes a communicator that not all ranks have closed; its MPI communicator stays\n",
                 rank_);
    for (sender& out : outgoing_) out.abandon();
    board_.abandon();
    comm_.abandon();
  }

  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  patience waits() const noexcept { return waits_; }
  // What the choice of algorithm depends on, the same at all ranks.
  bool crowded() const noexcept { return waits_.spins < patience_with_cores.spins; }

  // The MPI's own collectives, which execute/mpi_collectives.hpp has. An error of theirs is a fault.
  using library = mpi_collectives;
  MPI_Comm communicator() const noexcept { return comm_.get(); }
  void all_have_come() noexcept { board_.hear_all(); }
  void expect(int code, char const* call) noexcept { check(code, call, rank_); }

  // Where the MPI was initialised for one thread, that thread must call.
  void expect_thread() const {
    if (any_thread_ || std::this_thread::get_id() == thread_) return;
    throw error({.code = error_code::bad_argument,
                 .rank = rank_,
                 .what = "a collective over MPI was called by another thread than the one that MPI allows",
                 .way_out = "call it from the main thread, or initialise MPI with MPI_THREAD_SERIALIZED"});
  }

  // -- Sending: claim a place, write to it what was claimed, publish. Null while the window is full.
  std::byte* claim(int to, int track, std::size_t, std::size_t) noexcept {
    sender& out = outgoing(to, track);
    if (!out.slots && !open(out.slots, to)) return nullptr;
    if (out.published - out.sent == window && !(advance(out, to), out.published - out.sent < window)) return nullptr;
    return out.slots.get()[out.published % window].data;
  }
  void publish(int to, int track, std::size_t bytes, bool more, std::uint32_t tag) noexcept {
    sender& out = outgoing(to, track);
    if (out.sent == out.published) busy_.push_back({&out, to});
    std::uint64_t const place = out.published++ % window;
    slot& here = out.slots.get()[place];
    here.front = {tag, static_cast<std::uint32_t>(bytes) << 1 | std::uint32_t{more}, board_.sequence()};
    auto const send = place % (window / 2) == 0 ? MPI_Issend : MPI_Isend;
    check(send(&here.front, static_cast<int>(sizeof(head) + bytes), MPI_BYTE, to, track, comm_.get(), &here.request),
          "MPI_Isend", to);
  }
  // Whether all that was published has left, so that nobody needs this rank's help to get it.
  bool all_sent() noexcept {
    std::erase_if(busy_, [&](busy const& b) { return advance(*b.out, b.to); });
    return busy_.empty();
  }

  // -- Receiving: look, use the view, release.
  arrival look(int from, int track, std::uint32_t tag) noexcept {
    receiver& in = incoming(from, track);
    if (!in.slots && !(open(in.slots, from) && post_all(in, from, track))) return {};
    slot& here = in.slots.get()[in.taken % window];
    if (!in.arrived && !done(here.request, from)) return {};
    in.arrived = true;
    bool const ours = here.front.tag == tag;
    if (ours) board_.hear(from, here.front.sequence);
    return {ours ? arrival::message : arrival::stranger, here.data, here.front.bytes_and_more >> 1,
            (here.front.bytes_and_more & 1) != 0};
  }
  void release(int from, int track) noexcept {
    receiver& in = incoming(from, track);
    in.arrived = false;
    post(in, in.taken++ % window, from, track);
  }

  std::byte* allocate(std::size_t bytes) {
    return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{page}));
  }
  void deallocate(std::byte* memory, std::size_t) noexcept { ::operator delete(memory, std::align_val_t{page}); }

  // -- Waiting. MPI wakes nobody.
  template <class Ready>
  void nap(Ready&& ready) noexcept {
    board_.listen();
    if (!ready()) board_.sleep();
  }
  void ring_all() noexcept {}
  // MPI does not tell when a process ends; it ends the others too, or returns an error.
  bool lost(int) const noexcept { return false; }
  bool left(int peer) const noexcept { return board_.left(peer); }
  std::string describe(int peer) const { return join({"rank ", peer}); }
  void leave() noexcept {
    if (!mpi_is_finalized()) board_.leave();  // a communicator may outlive the MPI by mistake
  }

  // A transport for these ranks, in this order, for ever apart from this one. Each of them calls it, with the same list;
  // it returns when all have.
  // Throws error: timeout with the ranks that did not come, rank_lost where one of them has left, system.
  [[gnu::cold]] std::unique_ptr<mpi> subgroup(std::vector<int> const& members, deadline until) {
    int const tag = meeting_tag(members);
    mpi_meeting meeting(comm_.get(), tag, members, rank_, ++meetings_);
    int gone = -1;
    bool const met = wait_until_done([&] { return meeting.poll(); }, waits_, until,
                                     [&](auto const& ready) {
                                       nap(ready);
                                       meeting.tell_absent();
                                       for (int const m : members)
                                         if (m != rank_ && left(m)) gone = m;
                                       return gone < 0 || ready();
                                     });
    if (!met) throw gone < 0 ? ranks_absent(rank_, meeting.absent(), call_subgroup_too) : rank_gone(rank_, gone);
    MPI_Comm const made = create(members, tag);
    auto out = std::make_unique<mpi>(made, tracks_, limit_);
    MPI_Comm copied = made;
    MPI_Comm_free(&copied);
    return out;
  }

  mpi_board notices() const noexcept { return board_; }
  // Gives peers that are in this call too a moment to say so.
  void ask_peers() noexcept { board_.ask(); }

 private:
  static constexpr std::size_t window = 8;

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

    void abandon() noexcept {
      if (sent < published) static_cast<void>(slots.release());
    }
  };
  struct receiver {
    std::unique_ptr<slot[]> slots;
    std::uint64_t taken = 0;
    bool arrived = false;  // the next message

    // What a sender that is elsewhere has begun to fill stays with the MPI.
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

  bool check(int code, char const* call, int peer) noexcept {
    if (code == MPI_SUCCESS) return true;
    fail(peer, [&] { return mpi_text(call, code); });
    return false;
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
  bool done(MPI_Request& request, int peer) noexcept {
    int finished = 0;
    return check(MPI_Test(&request, &finished, MPI_STATUS_IGNORE), "MPI_Test", peer) && finished != 0;
  }

  [[gnu::cold]] bool open(std::unique_ptr<slot[]>& slots, int peer) noexcept {
    slots.reset(new (std::nothrow) slot[window]);
    if (!slots) fail(peer, [] { return "there is no memory for a channel"; });
    return slots != nullptr;
  }
  bool post(receiver& in, std::size_t place, int from, int track) noexcept {
    slot& here = in.slots.get()[place];
    return check(MPI_Irecv(&here.front, sizeof(head) + slice_bytes, MPI_BYTE, from, track, comm_.get(), &here.request),
                 "MPI_Irecv", from);
  }
  [[gnu::cold]] bool post_all(receiver& in, int from, int track) noexcept {
    for (std::size_t place = 0; place < window; ++place)
      if (!post(in, place, from, track)) return false;
    return true;
  }
  // Whether all has left.
  bool advance(sender& out, int to) noexcept {
    while (out.sent < out.published && done(out.slots.get()[out.sent % window].request, to)) ++out.sent;
    return out.sent == out.published;
  }

  // One for each list, as far as the MPI has tags, after those of the tracks and the board.
  [[gnu::cold]] int meeting_tag(std::vector<int> const& members) const {
    int* most = nullptr;
    int found = 0;
    expect_success(MPI_Comm_get_attr(comm_.get(), MPI_TAG_UB, &most, &found), "MPI_Comm_get_attr");
    std::uint32_t hash = 2166136261u;  // FNV-1a
    for (int const m : members) hash = (hash ^ static_cast<std::uint32_t>(m)) * 16777619u;
    int const least = tracks_ + 1, all = (found != 0 ? *most : 32767) - least;
    return least + static_cast<int>(hash % static_cast<std::uint32_t>(all));
  }
  [[gnu::cold]] MPI_Comm create(std::vector<int> const& members, int tag) const {
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    MPI_Comm out = MPI_COMM_NULL;
    expect_success(MPI_Comm_group(comm_.get(), &all), "MPI_Comm_group");
    expect_success(MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &some), "MPI_Group_incl");
    int const code = MPI_Comm_create_group(comm_.get(), some, tag, &out);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    expect_success(code, "MPI_Comm_create_group");
    return out;
  }

  [[gnu::cold]] static bool takes_any_thread() {
    int level = MPI_THREAD_SINGLE;
    expect_success(MPI_Query_thread(&level), "MPI_Query_thread");
    return level >= MPI_THREAD_SERIALIZED;
  }
  // Whether every rank, of all machines, has a core for itself. A launcher may have bound each to one.
  [[gnu::cold]] bool have_cores() const {
    MPI_Comm machine = MPI_COMM_NULL;
    expect_success(MPI_Comm_split_type(comm_.get(), MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &machine),
                   "MPI_Comm_split_type");
    cpu_set_t cores;
    CPU_ZERO(&cores);
    ::sched_getaffinity(0, sizeof cores, &cores);
    int here = 0;
    MPI_Comm_size(machine, &here);
    MPI_Allreduce(MPI_IN_PLACE, &cores, sizeof cores, MPI_BYTE, MPI_BOR, machine);
    MPI_Comm_free(&machine);
    int enough = CPU_COUNT(&cores) >= here;
    expect_success(MPI_Allreduce(MPI_IN_PLACE, &enough, 1, MPI_INT, MPI_MIN, comm_.get()), "MPI_Allreduce");
    return enough != 0;
  }

  // Whether all ranks have come here, and nobody has a message on its way. After a fault, ranks may be elsewhere and
  // messages may have no receiver.
  [[gnu::cold]] bool meet_to_close() noexcept {
    MPI_Request meeting = MPI_REQUEST_NULL;
    bool started = false;
    auto const look = [&] {
      board_.listen();
      if (board_.faulty()) discard_all();
      if (!started && all_sent() && board_.delivered())
        started = check(MPI_Ibarrier(comm_.get(), &meeting), "MPI_Ibarrier", rank_);
      return started && done(meeting, rank_) ? progress::done : progress::stuck;
    };
    countdown after_fault(std::chrono::seconds(1));
    return wait_until_done(look, waits_, deadline::after(limit_), [&](auto const& ready) {
      nap(ready);
      return !(board_.faulty() && after_fault.passed());
    });
  }
  // Receives what nobody will look at any more.
  void discard_all() noexcept {
    int there = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_.get(), &there, &status) == MPI_SUCCESS && there != 0 &&
        status.MPI_TAG < tracks_)
      look(status.MPI_SOURCE, status.MPI_TAG, 0);
    for (int t = 0; t < tracks_; ++t)
      for (int r = 0; r < ranks_; ++r)
        while (incoming(r, t).slots && look(r, t, 0).state != arrival::nothing) release(r, t);
  }

  mpi_communicator comm_;
  int rank_;
  int ranks_;
  int tracks_;
  std::chrono::nanoseconds limit_;
  std::thread::id thread_ = std::this_thread::get_id();
  bool any_thread_;
  patience waits_;
  std::uint64_t meetings_ = 0;
  mpi_board board_;  // on the tag after those of the tracks
  std::vector<sender> outgoing_;
  std::vector<receiver> incoming_;
  std::vector<busy> busy_;  // channels with messages that have not left
};

static_assert(divisible<mpi> && sends_later<mpi> && bound_to_thread<mpi> && asks_peers<mpi>);

}  // namespace tutti
