// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ranks of an MPI communicator: where they are, news of them, and how communicators of some of them are made.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mpi.h>
#include <sched.h>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/absence.hpp"
#include "tutti/transport/mpi/board.hpp"
#include "tutti/transport/mpi/channels.hpp"
#include "tutti/transport/mpi/communicator.hpp"
#include "tutti/transport/mpi/library.hpp"
#include "tutti/transport/mpi/meeting.hpp"

namespace tutti::detail {

class mpi_ranks {
 public:
  mpi_ranks(mpi_communicator own, int tracks, std::chrono::nanoseconds limit)
      : comm_(std::move(own)),
        calls_(copy_to_revoke()),
        rank_(comm_.rank()),
        ranks_(comm_.size()),
        tracks_(tracks),
        limit_(limit),
        machine_(look_around()),
        waits_(machine_.cores ? patience_with_cores : patience_sharing_cores),
        board_(comm_.get(), communicator(), tracks, rank_, ranks_) {}
  mpi_ranks(mpi_ranks const&) = delete;
  mpi_ranks& operator=(mpi_ranks const&) = delete;

  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  int local_rank() const noexcept { return machine_.rank; }
  int local_ranks() const noexcept { return machine_.ranks; }
  patience waits() const noexcept { return waits_; }
  // What the choice of algorithm depends on, the same at all ranks.
  bool crowded() const noexcept { return waits_.spins < patience_with_cores.spins; }
  // That of calls.
  MPI_Comm communicator() const noexcept { return calls_.get() != MPI_COMM_NULL ? calls_.get() : comm_.get(); }

  // -- Waiting. MPI wakes nobody.
  template <class Ready>
  void nap(Ready&& ready) noexcept {
    board_.listen();
    if (!ready()) board_.sleep();
  }
  void wake_all() noexcept {}
  // An MPI without fault tolerance does not tell when a process ends: it ends the others too.
  bool lost(int peer) const noexcept { return board_.lost(peer); }
  bool left(int peer) const noexcept { return board_.left(peer); }
  std::string describe(int peer) const { return join({"rank ", peer}); }

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
    if (!met) throw gone < 0 ? ranks_absent(rank_, meeting.absent(), members_must_join) : rank_gone(rank_, gone);
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

 private:
  struct machine {
    int rank = 0;  // among those that are here
    int ranks = 1;
    bool cores = false;  // every rank, of all machines, has one for itself
  };

  // One for each list, as far as the MPI has tags, after those of the channels and the board.
  [[gnu::cold]] int meeting_tag(std::vector<int> const& members) const {
    int* most = nullptr;
    int found = 0;
    expect_success(MPI_Comm_get_attr(comm_.get(), MPI_TAG_UB, static_cast<void*>(&most), &found), "MPI_Comm_get_attr");
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

 protected:
  mpi_communicator comm_;
  mpi_communicator calls_;  // of its own where the MPI survives the end of ranks
  int rank_;
  int ranks_;
  int tracks_;
  std::chrono::nanoseconds limit_;
  machine machine_;
  patience waits_;
  std::uint64_t meetings_ = 0;
  std::atomic<bool> strays_ = false;  // messages may have no receiver
  mpi_board board_;                   // on the tag after those of the tracks
};

}  // namespace tutti::detail
