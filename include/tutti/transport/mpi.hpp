// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks are those of an MPI communicator, on one machine or many: slices travel as messages.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <mpi.h>
#include <new>
#include <sched.h>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/absence.hpp"
#include "tutti/transport/arrival.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/mpi_ballot.hpp"
#include "tutti/transport/mpi_board.hpp"
#include "tutti/transport/mpi_channels.hpp"
#include "tutti/transport/mpi_communicator.hpp"
#include "tutti/transport/mpi_library.hpp"
#include "tutti/transport/mpi_meeting.hpp"

namespace tutti {

struct mpi_collectives;

class mpi {
 public:
  static constexpr std::string_view name = "mpi";
  static constexpr std::size_t slice_bytes = mpi_channels::slice_bytes;
  static constexpr std::size_t eager_bytes = mpi_eager_bytes;

  // All ranks of `ranks` call it, and all destroy it; `limit`: how long they may wait for each other there.
  // Throws error: timeout, bad_argument, system.
  [[gnu::cold]] mpi(MPI_Comm ranks, int tracks, std::chrono::nanoseconds limit)
      : mpi(mpi_communicator(ranks, deadline::after(limit)), tracks, limit) {}
  // The same with a communicator of their own.
  [[gnu::cold]] mpi(mpi_communicator own, int tracks, std::chrono::nanoseconds limit)
      : comm_(std::move(own)),
        calls_(copy_to_revoke()),
        rank_(comm_.rank()),
        ranks_(comm_.size()),
        tracks_(tracks),
        limit_(limit),
        level_(thread_level()),
        machine_(look_around()),
        waits_(machine_.cores ? patience_with_cores : patience_sharing_cores),
        board_(comm_.get(), communicator(), tracks, rank_, ranks_),
        ballot_(comm_.get(), mpi_channels::farewell_tag(tracks) + 1, rank_, ranks_, board_),
        channels_(communicator(), board_, rank_, ranks_, tracks) {}
  mpi(mpi const&) = delete;
  mpi& operator=(mpi const&) = delete;
  ~mpi() {
    if (mpi_is_finalized()) return;
    bool const orderly = comm_.get() != MPI_COMM_NULL && meet_to_close();
    if (board_.anyone_lost()) tell_that_it_left();
    auto const last_moment = deadline::after(std::chrono::milliseconds(orderly ? 1000 : 10));
    channels_.cancel_receives(last_moment);
    bool const unread = ballot_.was_used();  // a letter may be on its way to it, which no farewell follows
    bool const closed = board_.close() && ballot_.close() && orderly;
    if (closed && !unread) return;
    comm_.abandon();
    if (closed) return;
    if (!board_.anyone_lost())
      std::fprintf(stderr,
                   "tutti: rank %d closes a communicator that not all ranks have closed; its MPI communicator stays\n",
                   rank_);
    channels_.abandon_sends();
    board_.abandon();
    ballot_.abandon();
    calls_.abandon();
  }

  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  int local_rank() const noexcept { return machine_.rank; }
  int local_ranks() const noexcept { return machine_.ranks; }
  patience waits() const noexcept { return waits_; }
  // What the choice of algorithm depends on, the same at all ranks.
  bool crowded() const noexcept { return waits_.spins < patience_with_cores.spins; }

  // The MPI's own collectives, which execute/mpi_collectives.hpp has. An error of theirs is a fault.
  using library = mpi_collectives;
  MPI_Comm communicator() const noexcept { return calls_.get() != MPI_COMM_NULL ? calls_.get() : comm_.get(); }
  void all_have_come() noexcept { board_.hear_all(); }
  bool takes_device_memory() const { return mpi_takes_device_memory(); }
  void expect(int code, char const* call) noexcept {
    if (!channels_.check(code, call, rank_) && mpi_is_loss(code)) name_the_lost(call);
  }

  // Where the MPI was initialised for one thread, that thread must call.
  void expect_thread() const {
    if (level_ >= MPI_THREAD_SERIALIZED || std::this_thread::get_id() == thread_) return;
    throw error({.code = error_code::bad_argument,
                 .rank = rank_,
                 .what = "a collective over MPI was called by another thread than the one that MPI allows",
                 .way_out = "call it from the main thread, or initialise MPI with MPI_THREAD_SERIALIZED"});
  }

  // Whether threads may call it at the same time as others call the MPI.
  bool threads_at_once() const noexcept { return level_ >= MPI_THREAD_MULTIPLE; }

  // -- Messages: see mpi_channels.
  std::byte* claim(int to, int track, std::size_t, std::size_t) noexcept { return channels_.claim(to, track); }
  void publish(int to, int track, std::size_t bytes, bool more, std::uint32_t tag) noexcept {
    channels_.publish(to, track, bytes, more, tag);
  }
  bool all_sent() noexcept { return channels_.all_sent(); }
  void publish_beside_calls(int to, int track, std::size_t bytes, bool awaited, std::uint32_t tag) noexcept {
    strays_.store(true, std::memory_order_relaxed);
    channels_.publish_beside_calls(to, track, bytes, awaited, tag);
  }
  std::uint64_t published(int to, int track) noexcept { return channels_.published(to, track); }
  bool has_left(int to, int track, std::uint64_t count) noexcept { return channels_.has_left(to, track, count); }
  arrival look(int from, int track, std::uint32_t tag) noexcept { return channels_.look(from, track, tag); }
  void release(int from, int track) noexcept { channels_.release(from, track); }

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
  // An MPI without fault tolerance does not tell when a process ends: it ends the others too.
  bool lost(int peer) const noexcept { return board_.lost(peer); }
  bool left(int peer) const noexcept { return board_.left(peer); }
  std::string describe(int peer) const { return join({"rank ", peer}); }
  void leave() noexcept {
    if (!mpi_is_finalized()) board_.leave();  // a communicator may outlive the MPI by mistake
  }
  void leave_at_once() noexcept {
    if (!mpi_is_finalized()) board_.leave_at_once();
  }

  // A transport for these ranks, in this order, for ever apart from this one. Each of them calls it, with the same list;
  // it returns when all have.
  // Throws error: timeout with the ranks that did not come, rank_lost where one of them has left, system.
  [[gnu::cold]] std::unique_ptr<mpi> subgroup(std::vector<int> const& members, deadline until) {
    return naming_the_lost([&] { return std::make_unique<mpi>(meet_members(members, until), tracks_, limit_); });
  }

  // -- Ranks that end, where the MPI stands by those that are left.
  bool survives() const noexcept { return mpi_survives(); }
  mpi_ballot votes() const noexcept { return ballot_; }
  // A transport for the ranks that are left, `members`, who have agreed on that and all come. `others_live`: some of those
  // that are left out may, having closed their communicator.
  // Throws error: rank_lost where one of them has ended meanwhile, system.
  [[gnu::cold]] std::unique_ptr<mpi> shrink(std::vector<int> const& members, bool others_live, deadline) {
    return std::make_unique<mpi>(meet_survivors(members, others_live), tracks_, limit_);
  }

 protected:
  [[gnu::cold]] mpi_communicator meet_members(std::vector<int> const& members, deadline until) {
    int const tag = meeting_tag(members);
    mpi_meeting meeting(comm_.get(), tag, members, rank_, ++meetings_);
    int gone = -1;
    bool const met = wait_until_done([&] { return meeting.poll(board_.anyone_lost()); }, waits_, until,
                                     [&](auto const& ready) {
                                       nap(ready);
                                       meeting.tell_absent();
                                       for (int const m : members)
                                         if (m != rank_ && (left(m) || lost(m))) gone = m;
                                       return gone < 0 || ready();
                                     });
    if (!met) strays_ = true;
    if (!met) throw gone < 0 ? ranks_absent(rank_, meeting.absent(), call_subgroup_too) : rank_gone(rank_, gone);
    return create(members, tag, meeting.apart());
  }
  [[gnu::cold]] mpi_communicator meet_survivors(std::vector<int> const& members, bool others_live) {
    if (others_live || members.size() == 1) return create(members, meeting_tag(members), true);
    MPI_Comm made = MPI_COMM_NULL;
    expect_success(mpi_shrink(comm_.get(), &made), "MPIX_Comm_shrink");
    auto out = mpi_communicator::adopt(made);
    if (out.size() == static_cast<int>(members.size())) return out;
    throw error(
        {.code = error_code::rank_lost, .rank = rank_, .what = "a rank ended before all that were left had met"});
  }

  // Calls make(), which makes a transport of some ranks, and names the rank that was lost in the middle of it.
  template <class Make>
  [[gnu::cold]] std::invoke_result_t<Make> naming_the_lost(Make&& make) {
    try {
      return make();
    } catch (error const& e) {
      int const peer = e.code() == error_code::rank_lost && e.peer() < 0 ? find_the_lost(false) : -1;
      if (peer < 0) throw;
      throw rank_gone(rank_, peer);
    }
  }

 public:
  void end_job(int code) noexcept { MPI_Abort(comm_.get(), code); }

  mpi_board notices() const noexcept { return board_; }
  // Gives peers that are in this call too a moment to say so.
  void ask_peers() noexcept { board_.ask(); }
  // For who waits elsewhere in the middle of a call.
  void heed() noexcept {
    if (!mpi_is_finalized()) board_.heed();
  }

 protected:
  // A part of making this transport, on all ranks: calls make(), which uses the communicator of calls, and `part`. Where
  // ranks may end in the middle of that, it fails on all of them or on none.
  template <class Make>
  [[gnu::cold]] void together(MPI_Comm part, Make&& make) {
    try {
      mpi_together(comm_.get(), {part, communicator(), comm_.get()}, make);
    } catch (...) {
      if (mpi_survives()) calls_.abandon();
      if (mpi_survives()) comm_.abandon();
      throw;
    }
  }
  // make(&made) returns what the MPI said.
  template <class Make>
  [[gnu::cold]] mpi_communicator make_part(Make&& make) {
    mpi_communicator out;
    together(MPI_COMM_NULL, [&] {
      MPI_Comm made = MPI_COMM_NULL;
      expect_success(make(&made), "making a communicator");
      if (made != MPI_COMM_NULL) out = mpi_communicator::adopt(made);
    });
    return out;
  }

 private:
  // One for each list, as far as the MPI has tags, after those of the channels and the board.
  [[gnu::cold]] int meeting_tag(std::vector<int> const& members) const {
    int* most = nullptr;
    int found = 0;
    expect_success(MPI_Comm_get_attr(comm_.get(), MPI_TAG_UB, &most, &found), "MPI_Comm_get_attr");
    std::uint32_t hash = 2166136261u;  // FNV-1a
    for (int const m : members) hash = (hash ^ static_cast<std::uint32_t>(m)) * 16777619u;
    int const least = mpi_channels::farewell_tag(tracks_) + 2, all = (found != 0 ? *most : 32767) - least;
    return least + static_cast<int>(hash % static_cast<std::uint32_t>(all));
  }
  // A member that meets with one that has ended lets go of those that wait for it. Nothing is made of a communicator with
  // ranks that have ended, as Open MPI has it: then the members make theirs apart from it.
  [[gnu::cold]] mpi_communicator create(std::vector<int> const& members, int tag, bool apart) {
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    MPI_Comm out = MPI_COMM_NULL;
    if (members.size() == 1) {
      expect_success(MPI_Comm_dup(MPI_COMM_SELF, &out), "MPI_Comm_dup");
      return mpi_communicator::adopt(out);
    }
    expect_success(MPI_Comm_group(comm_.get(), &all), "MPI_Comm_group");
    expect_success(MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &some), "MPI_Group_incl");
    int const code = apart ? mpi_create_apart(some, join({"tutti-", tag}).c_str(), &out)
                           : MPI_Comm_create_group(communicator(), some, tag, &out);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    if (mpi_is_loss(code)) mpi_revoke(communicator());
    expect_success(code, apart ? "MPI_Comm_create_from_group" : "MPI_Comm_create_group");
    return mpi_communicator::adopt(out);
  }

  [[gnu::cold]] static int thread_level() {
    int level = MPI_THREAD_SINGLE;
    expect_success(MPI_Query_thread(&level), "MPI_Query_thread");
    return level;
  }
  struct machine {
    int rank = 0;  // among those that are here
    int ranks = 1;
    bool cores = false;  // every rank, of all machines, has one for itself
  };
  // A launcher may have bound each rank to a core.
  [[gnu::cold]] machine look_around() {
    mpi_communicator const here = make_part([&](MPI_Comm* made) {
      return MPI_Comm_split_type(communicator(), MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, made);
    });
    machine out{here.rank(), here.size()};
    cpu_set_t cores;
    CPU_ZERO(&cores);
    ::sched_getaffinity(0, sizeof cores, &cores);
    together(here.get(), [&] {
      expect_success(MPI_Allreduce(MPI_IN_PLACE, &cores, sizeof cores, MPI_BYTE, MPI_BOR, here.get()), "MPI_Allreduce");
      int enough = CPU_COUNT(&cores) >= out.ranks;
      expect_success(MPI_Allreduce(MPI_IN_PLACE, &enough, 1, MPI_INT, MPI_MIN, communicator()), "MPI_Allreduce");
      out.cores = enough != 0;
    });
    return out;
  }

  // Under fault tolerance calls have a communicator apart, which is revoked where ranks are lost, while those that are left
  // go on talking.
  [[gnu::cold]] mpi_communicator copy_to_revoke() {
    mpi_communicator out;
    if (!mpi_survives()) return out;
    try {
      mpi_together(comm_.get(), {comm_.get()}, [&] {
        MPI_Comm made = MPI_COMM_NULL;
        expect_success(MPI_Comm_dup(comm_.get(), &made), "MPI_Comm_dup");
        out = mpi_communicator::adopt(made);
      });
    } catch (...) {
      out.abandon();
      comm_.abandon();
      throw;
    }
    return out;
  }
  // Whom a call of the MPI has failed for, which may know of it from another rank alone; -1 where that stays unknown.
  [[gnu::cold]] int find_the_lost(bool or_a_fault) noexcept {
    auto const look = [&] {
      board_.listen();
      board_.look_for_lost();
      return board_.anyone_lost() || (or_a_fault && board_.faulty()) ? progress::done : progress::stuck;
    };
    wait_until_done(look, waits_, deadline::after(std::chrono::seconds(1)), [](auto const&) {
      std::this_thread::sleep_for(nap_length);
      return true;
    });
    for (int r = 0; r < ranks_; ++r)
      if (lost(r)) return r;
    return -1;
  }
  [[gnu::cold]] void name_the_lost(char const* call) noexcept {
    int const peer = find_the_lost(true);
    board_.raise({static_cast<int>(error_code::rank_lost), rank_, peer < 0 ? rank_ : peer,
                  join({peer < 0 ? "a rank" : describe(peer), " ended while rank ", rank_, " was in ", call})});
  }

  // Whether all ranks have come here, and nobody has a message on its way. After a fault, ranks may be elsewhere and
  // messages may have no receiver, nor need those beside calls have one: once all are here, and so know of the fault, those
  // who may have sent some say farewell, and all receive what comes until each farewell was taken.
  [[gnu::cold]] bool meet_to_close() noexcept {
    enum { sends, all_here, farewells, all_taken } awaited = sends;
    MPI_Request meeting = MPI_REQUEST_NULL;
    auto const meet = [&] { return channels_.check(MPI_Ibarrier(comm_.get(), &meeting), "MPI_Ibarrier", rank_); };
    auto const look = [&] {
      board_.listen();
      if (board_.anyone_lost()) return progress::stuck;
      if (board_.faulty()) strays_ = true;
      if (strays_ || awaited > all_here) channels_.discard();
      if (awaited == sends && all_sent() && board_.delivered() && meet()) awaited = all_here;
      if (awaited == all_here && channels_.done(meeting, rank_)) {
        board_.listen();
        if (strays_ || board_.faulty()) channels_.bid_farewell();
        awaited = farewells;
      }
      if (awaited == farewells && channels_.farewells_are_taken() && meet()) awaited = all_taken;
      bool const last = awaited == all_taken && channels_.done(meeting, rank_) && channels_.idle();
      return last ? progress::done : progress::stuck;
    };
    countdown after_fault(std::chrono::seconds(1));
    board_.look_for_lost();
    return wait_until_done(look, waits_, deadline::after(limit_), [&](auto const& ready) {
      if (!board_.anyone_lost()) nap(ready);
      return !board_.anyone_lost() && !(board_.faulty() && after_fault.passed());
    });
  }

  // Nobody meets to close what a rank was lost of, and those who agree on who is left wait for those who are there.
  [[gnu::cold]] void tell_that_it_left() noexcept {
    board_.leave_at_once();
    wait_until_done([&] { return board_.has_told() ? progress::done : progress::stuck; }, waits_,
                    deadline::after(std::chrono::seconds(1)),
                    [](auto const&) {
                      std::this_thread::sleep_for(nap_length);
                      return true;
                    });
  }

  mpi_communicator comm_;
  mpi_communicator calls_;  // of its own where the MPI survives the end of ranks
  int rank_;
  int ranks_;
  int tracks_;
  std::chrono::nanoseconds limit_;
  std::thread::id thread_ = std::this_thread::get_id();
  int level_;
  machine machine_;
  patience waits_;
  std::uint64_t meetings_ = 0;
  std::atomic<bool> strays_ = false;  // messages may have no receiver
  mpi_board board_;                   // on the tag after those of the tracks
  mpi_ballot ballot_;
  mpi_channels channels_;
};

static_assert(divisible<mpi> && may_survive<mpi> && spans_machines<mpi> && sends_later<mpi> && sends_at_once<mpi> &&
              bound_to_thread<mpi> && asks_peers<mpi> && sends_beside_calls<mpi> && ends_job<mpi>);

}  // namespace tutti
