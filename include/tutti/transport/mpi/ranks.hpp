// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ranks of an MPI communicator: their machines, their state, and communicators of some of them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mpi.h>
#include <sched.h>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/hash.hpp"
#include "tutti/core/random.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/absence.hpp"
#include "tutti/transport/mpi/board.hpp"
#include "tutti/transport/mpi/communicator.hpp"
#include "tutti/transport/mpi/library.hpp"
#include "tutti/transport/mpi/meeting.hpp"
#include "tutti/transport/mpi/neighbours.hpp"
#include "tutti/transport/nap.hpp"
#include "tutti/transport/system/caches.hpp"
#include "tutti/transport/system/call_watchdog.hpp"

namespace tutti::detail {

class mpi_ranks {
 public:
  // `known`: watches of processes, some of which may be those of these ranks.
  mpi_ranks(mpi_communicator own, int tracks, std::chrono::nanoseconds limit, std::vector<mpi_neighbour> const& known)
      : comm_(std::move(own)),
        calls_(revocable_duplicate()),
        rank_(comm_.rank()),
        ranks_(comm_.size()),
        tracks_(tracks),
        limit_(limit),
        machine_(find_machine(known)),
        waits_(machine_.enough_cores ? patience_with_cores : patience_sharing_cores),
        board_(comm_.get(), communicator(), tracks, rank_, ranks_, machine_.identity) {
    for (mpi_neighbour const& n : machine_.neighbours) board_.watch(n.rank, n.watch);
    if (!mpi_survives()) board_.inside_mpi().start(rank_, call_watchdog::limit_of(limit_));
  }
  mpi_ranks(mpi_ranks const&) = delete;
  mpi_ranks& operator=(mpi_ranks const&) = delete;

  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  int local_rank() const noexcept { return machine_.rank; }
  int local_ranks() const noexcept { return machine_.ranks; }
  int first_local_rank() const noexcept { return machine_.first; }
  patience waits() const noexcept { return waits_; }
  // An input of the choice of algorithm, so the same at all ranks.
  bool crowded() const noexcept { return waits_.spins < patience_with_cores.spins; }
  // The communicator of calls.
  MPI_Comm communicator() const noexcept { return calls_.get() != MPI_COMM_NULL ? calls_.get() : comm_.get(); }

  // -- Waiting. MPI cannot wake a rank that sleeps.
  template <class Ready>
  void nap(Ready&& ready) noexcept {
    board_.listen();
    if (!ready()) board_.sleep();
  }
  void wake_all() noexcept {}
  // An MPI without fault tolerance does not report lost ranks. Then a rank watches the other processes of its machine and that of the
  // next rank. It learns of the end of others from the faults that are raised by ranks which watch those.
  bool lost(int peer) const noexcept { return board_.lost(peer); }
  bool left(int peer) const noexcept { return board_.left(peer); }
  std::string describe(int peer) const { return join({"rank ", peer}); }

 protected:
  // The tag of messages after which a rank sends no more. Channels use the numbers of their tracks as tags, and the board uses the next
  // one. The ballot's follows this one.
  int farewell_tag() const noexcept { return tracks_ + 1; }

  [[gnu::cold]] mpi_communicator meet_members(std::vector<int> const& members, countdown& until) {
    int const tag = meeting_tag(members);
    creating_.watch_as(board_.inside_mpi(), members);
    mpi_meeting meeting(comm_.get(), tag, members, rank_, ++meetings_);
    int gone = -1;
    bool const met = wait_until_done(
        [&] {
          call_note::scope const inside(creating_.notes[watched_calls::data], "MPI_Test");
          return meeting.poll(mpi_survives() && board_.anyone_lost());
        },
        waits_, until,
        [&](auto const& ready) {
          nap_rethrowing(*this, ready);
          meeting.report_absent();
          for (int const m : members)
            if (m != rank_ && (left(m) || lost(m))) gone = m;
          return gone < 0 || ready();
        });
    if (!met) strays_ = true;
    if (!met && gone >= 0) throw rank_gone(rank_, gone);
    if (!met) throw absent_ranks(rank_, meeting.absent(), members_must_join);
    return create(members, tag, meeting.independent());
  }
  [[gnu::cold]] mpi_communicator meet_survivors(std::vector<int> const& members, bool others_live) {
    if (others_live || members.size() == 1) return create(members, meeting_tag(members), true);
    MPI_Comm made = MPI_COMM_NULL;
    expect_success(mpi_shrink(comm_.get(), &made), "MPIX_Comm_shrink");
    auto out = mpi_communicator::adopt(made);
    if (out.size() == static_cast<int>(members.size())) return out;
    throw error({.code = error_code::rank_lost,
                 .rank = rank_,
                 .what = "another rank ended while the survivors created their communicator"});
  }

  // Calls make(), which creates a transport of some ranks. If a rank is lost meanwhile, the error names it.
  template <class Make>
  [[gnu::cold]] std::invoke_result_t<Make> name_lost_rank_in(Make&& make) {
    try {
      return make();
    } catch (error const& e) {
      int const peer = e.code() == error_code::rank_lost && e.peer() < 0 ? find_lost_rank(false) : -1;
      if (peer < 0) throw;
      throw rank_gone(rank_, peer);
    }
  }

  // A step in the construction of this transport, on all ranks: calls make(), which uses the communicator of calls and `part`.
  // Even if ranks end meanwhile, it fails on all of them or on none.
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
  // Creates a communicator on all ranks by make(&made), which returns an error code of the MPI.
  template <class Make>
  [[gnu::cold]] mpi_communicator make_part(Make&& make) {
    mpi_communicator out;
    together(MPI_COMM_NULL, [&] {
      MPI_Comm made = MPI_COMM_NULL;
      expect_success(make(&made), "creating a communicator");
      if (made != MPI_COMM_NULL) out = mpi_communicator::adopt(made);
    });
    return out;
  }

  // Finds the lost rank that made a call of the MPI fail, or -1 if that stays unknown: the MPI may have heard of the loss only
  // from another rank. `or_a_fault`: returns early if a fault has been raised.
  [[gnu::cold]] int find_lost_rank(bool or_a_fault) noexcept {
    auto const look = [&] {
      board_.listen();
      board_.look_for_lost();
      return board_.anyone_lost() || (or_a_fault && board_.faulty()) ? progress::done : progress::stuck;
    };
    wait_until_done(look, waits_, deadline::after(std::chrono::seconds(1)), sleep_for(nap_length));
    for (int r = 0; r < ranks_; ++r)
      if (lost(r)) return r;
    return -1;
  }

 private:
  struct machine {
    int rank = 0;                // among the ranks on this machine
    int ranks = 1;               // on this machine
    int first = 0;               // of these, in the numbering of all
    bool enough_cores = false;   // on every machine, one for each rank
    std::uint64_t identity = 0;  // of the communicator, random
    std::vector<mpi_neighbour> neighbours{};
  };

  // A tag for each list of members, as far as the MPI has tags, after those of the channels, the board and the ballot.
  [[gnu::cold]] int meeting_tag(std::vector<int> const& members) const {
    int* max_tag = nullptr;
    int found = 0;
    expect_success(MPI_Comm_get_attr(comm_.get(), MPI_TAG_UB, static_cast<void*>(&max_tag), &found),
                   "MPI_Comm_get_attr");
    int const least = farewell_tag() + 2, all = (found != 0 ? *max_tag : 32767) - least;
    return least + static_cast<int>(hash_of(members) % static_cast<std::uint64_t>(all));
  }
  // If the call fails because a member has ended, revokes the communicator to release the members that wait in the call.
  // `independent`: without a parent, because Open MPI creates nothing from a communicator that has lost a rank.
  [[gnu::cold]] mpi_communicator create(std::vector<int> const& members, int tag, bool independent) {
    call_note::scope const inside(creating_.notes[watched_calls::collective], "MPI_Comm_create_group");
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    MPI_Comm out = MPI_COMM_NULL;
    if (members.size() == 1) {
      expect_success(MPI_Comm_dup(MPI_COMM_SELF, &out), "MPI_Comm_dup");
      return mpi_communicator::adopt(out);
    }
    expect_success(MPI_Comm_group(comm_.get(), &all), "MPI_Comm_group");
    expect_success(MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &some), "MPI_Group_incl");
    int const code = independent ? mpi_create_independent(some, join({"tutti-", tag}).c_str(), &out)
                                 : MPI_Comm_create_group(communicator(), some, tag, &out);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    if (mpi_is_loss(code)) mpi_revoke(communicator());
    expect_success(code, independent ? "MPI_Comm_create_from_group" : "MPI_Comm_create_group");
    return mpi_communicator::adopt(out);
  }

  // Counts the cores that the ranks of each machine may use, for a launcher may have bound each rank to one.
  [[gnu::cold]] machine find_machine(std::vector<mpi_neighbour> const& known) {
    if (!mpi_survives()) creating_.start(rank_, call_watchdog::limit_of(limit_));
    call_note::scope const inside(creating_.notes[watched_calls::collective], "creation of a communicator");
    mpi_communicator const here = make_part([&](MPI_Comm* made) {
      return MPI_Comm_split_type(communicator(), MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, made);
    });
    machine out{.rank = here.rank(), .ranks = here.size(), .first = rank_};
    if (!mpi_survives()) out.neighbours = find_neighbours(here.get(), rank_, known);
    if (!mpi_survives() && out.ranks < ranks_) watch_next_rank(communicator(), rank_, known, out.neighbours);
    cpu_set_t cores = usable_cores();
    together(here.get(), [&] {
      expect_success(MPI_Bcast(&out.first, 1, MPI_INT, 0, here.get()), "MPI_Bcast");
      expect_success(MPI_Allreduce(MPI_IN_PLACE, &cores, sizeof cores, MPI_BYTE, MPI_BOR, here.get()), "MPI_Allreduce");
      std::uint64_t least[] = {CPU_COUNT(&cores) >= out.ranks, random_number()};
      expect_success(MPI_Allreduce(MPI_IN_PLACE, least, 2, MPI_UINT64_T, MPI_MIN, communicator()), "MPI_Allreduce");
      out.enough_cores = least[0] != 0;
      out.identity = least[1];
    });
    return out;
  }

  // With fault tolerance, calls have a communicator of their own, which is revoked when a rank is lost, while notices and votes
  // continue on the other.
  [[gnu::cold]] mpi_communicator revocable_duplicate() {
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
  mpi_communicator calls_;  // null unless the MPI survives the loss of ranks
  int rank_;
  int ranks_;
  int tracks_;
  std::chrono::nanoseconds limit_;
  watched_calls creating_{};  // watches the members of the group that is created, because other ranks may end meanwhile
  machine machine_;
  patience waits_;
  std::uint64_t meetings_ = 0;
  std::atomic<bool> strays_ = false;  // some messages may have no receiver
  mpi_board board_;                   // uses the tag after those of the tracks
};

}  // namespace tutti::detail
