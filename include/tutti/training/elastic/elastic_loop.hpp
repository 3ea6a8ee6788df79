// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elastic training: a loop of steps that goes on when ranks are lost.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <source_location>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/call/survive.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/collective/barrier.hpp"
#include "tutti/core/error.hpp"
#include "tutti/launch/grow.hpp"
#include "tutti/launch/init.hpp"
#include "tutti/training/elastic/elastic_options.hpp"
#include "tutti/training/elastic/elastic_state.hpp"
#include "tutti/training/elastic/growth.hpp"
#include "tutti/training/elastic/lookout.hpp"
#include "tutti/training/elastic/member.hpp"
#include "tutti/training/elastic/roster.hpp"
#include "tutti/training/elastic/standing.hpp"
#include "tutti/training/elastic/votes.hpp"
#include "tutti/transport/shared_memory/shm.hpp"

namespace tutti::training {

// Runs the steps of a training on ranks of which some may be lost.
//
// The state is a list of named arrays, as for checkpoints: replicated, or divided, in which case the rank after each has a copy
// of its part. After a step, all ranks meet (one all_reduce of 8 bytes) and each copies its state in its memory. If a rank is
// lost in step n, the others leave the step with an error, shrink the communicator, return to the state after step n-1, or n
// if all had completed that, and go on. What the lost rank had of divided arrays comes from the copy.
//
// The state after a step is a function of the state before it and of the step's number, if the step is such a function whatever
// the number of ranks. Then a run that loses ranks ends with the bits of one that does not. docs/training.md says how to sum
// gradients so.
//
//   tutti::training::elastic_loop loop({.checkpoint_every = 100, .folder = "run"});
//   loop.run(1000,
//            [&](auto& comm) { return std::vector{replicated("weights", weights), replicated("random", random)}; },
//            [&](auto& comm, std::uint64_t step) { ... });
template <transport Transport = shm>
class elastic_loop {
 public:
  // The ranks that init finds; under tutti-run --elastic also a process that replaces a lost rank, which joins the others in
  // run(), when they have completed a step. A program may make several loops, in the same order on all ranks; a process that starts
  // in a later one is turned away. Throws error: as init does; bad_argument for options that make no sense.
  explicit elastic_loop(elastic_options options = {}, std::source_location where = std::source_location::current())
    requires std::same_as<Transport, shm>
      : elastic_loop(find_ranks(where), std::move(options)) {}

  // These ranks, over any transport that allows to shrink. All ranks pass the same options, but for `report`. Over shared memory
  // others may join them, if the communicator is that of all ranks of a launcher. Over MPI this is impossible.
  explicit elastic_loop(communicator<Transport> comm, elastic_options options = {})
      : elastic_loop(std::optional(std::move(comm)), std::move(options)) {}
  elastic_loop(elastic_loop const&) = delete;
  elastic_loop& operator=(elastic_loop const&) = delete;

  // Collective. Begins with the newest checkpoint, if there is any, and returns when all ranks have completed step `steps`, with
  // the last state in the arrays. May be called again, for further steps, which go on from there; new ranks can join only in the
  // first call, which is where they begin.
  //
  // Each rank passes  steps        the number of the last step, the same on all ranks; they are numbered from 1
  //                   state(comm)  returns the std::vector<saved_array> of the state. Called at the start and whenever the ranks
  //                                have changed or were late: it makes what depends on the communicator, and gives divided arrays
  //                                the size of this rank's part. The previous communicator exists until it returns. The values of
  //                                the arrays are restored afterwards; at the very start, replicated ones are those of rank 0
  //                   step(comm, n)  takes step n. It may be called again for the same n, with the state as it was, if ranks are
  //                                lost or late
  // Throws error      rank_lost if fewer than the least number of ranks are left, with what remains to be done; system if the only
  //                   copies of a part were lost, or a checkpoint cannot be written; bad_argument for arrays that are per_rank or
  //                   differ from those before, other steps than on rank 0, or fewer ranks from the start; excluded, on a rank
  //                   without which the others have gone on; timeout if ranks are late, and none is excluded, four times in one
  //                   step; and what state and step throw, unless it says that ranks were lost
  // Cost              per step: one all_reduce, a copy of the state, and a message with the parts of divided arrays
  template <class State, class Step>
  void run(std::uint64_t steps, State&& state, Step&& step,
           std::source_location where = std::source_location::current()) {
    where_ = where;
    steps_ = steps;
    ready_ = false;
    growth_.begin_run();
    tutti::detail::watch_during_call<Transport> const no_longer{lookout_};
    while (true) {
      std::exception_ptr why;
      try {
        if (!comm_) join();
        if (!ready_) prepare(state);
        while (ready_ && state_.step < steps) {
          roster_.expect_reported();
          step(*comm_, state_.step + 1);
          roster_.completed = ++state_.step;
          end_step();
          setbacks_.note_end_of(state_.step);
        }
        if (!ready_) continue;
        if (finish()) break;
      } catch (vote_on_loss const&) {
      } catch (error const& e) {
        if (is_fatal_ || !comm_ || !comm_->can_shrink() || !tutti::detail::is_loss(e.code(), options_)) throw;
        why = std::current_exception();
        decide({.takes_back = e.code() == error_code::timeout});
      }
      shrink(why);
    }
    growth_.end_run(comm_->is_main());
    roster_.expect_reported();
  }

  // The present one; another after each change of the ranks.
  communicator<Transport>& comm() noexcept { return *comm_; }
  // The steps that are completed. Any thread may ask for them and for the members, as `report` may.
  std::uint64_t step() const noexcept { return roster_.completed; }
  resumed const& restored() const noexcept { return state_.restored; }  // the checkpoint that was loaded last
  // All that this process has seen, by their numbers.
  std::vector<member> members() const { return roster_.members(); }

 private:
  using outcome = tutti::detail::outcome;
  struct vote_on_loss {};  // thrown when a vote has told that ranks are lost

  // None if this process is to join others.
  static std::optional<communicator<Transport>> find_ranks(std::source_location where) {
    if constexpr (std::same_as<Transport, shm>)
      if (tutti::detail::elastic_job::from_environment().joins_as < 0) return init({}, where);
    return {};
  }
  elastic_loop(std::optional<communicator<Transport>> comm, elastic_options options)
      : options_(std::move(options)), state_(options_), comm_(std::move(comm)) {
    tutti::detail::check_elastic_options(options_);
    if (!comm_) {
      growth_.begin_as_newcomer(job_);
      return;
    }
    growth_.begin_as_rank(job_, comm_->rank(), comm_->size(), Transport::name, std::same_as<Transport, shm>);
    if (options_.exclude_after.count() > 0 && !comm_->can_shrink({.exclude_after = options_.exclude_after}))
      tutti::detail::refuse_to_exclude(Transport::name);
    most_ranks_ = comm_->size();
    roster_.begin(comm_->size());
  }

  // -- The method.

  // A new group: all ranks have the same arrays, the state of the oldest of their last snapshots, and a snapshot of it.
  template <class State>
  void prepare(State& state) {
    lookout_.reset();
    state_.describe(*comm_, state(*comm_), where_);
    former_.clear();  // what was made on them is gone
    auto const all = state_.tell(
        *comm_,
        {.steps = steps_, .number = growth_.number(), .most_ranks = most_ranks_, .is_new = growth_.is_new() ? 1 : 0},
        where_);
    if (std::ranges::all_of(all, [](auto const& one) { return one.is_new != 0; })) {
      // The others have not got through their part of the meeting, and have gone on without these.
      former_.push_back(std::move(*comm_));
      comm_.reset();
      return;
    }
    tutti::detail::expect_same_steps(all, comm_->rank(), where_);
    for (auto const& one : all) most_ranks_ = std::max(most_ranks_, one.most_ranks);
    expect_enough();
    state_.restore(*comm_, all, where_);
    roster_.completed = state_.step;
    state_.take_snapshot(*comm_, where_);
    barrier(*comm_, {}, where_);
    state_.forget_others();
    roster_.welcome(tutti::detail::numbers_of(all));
    lookout_.emplace(*comm_, options_.suspect_after,
                     [this](int rank, bool suspected) { roster_.suspect(rank, suspected); });
    growth_.finish_joining();
    ready_ = true;
    if (state_.should_save()) state_.save(*comm_, where_);
  }

  // All ranks meet, and grow if others wait to join.
  void end_step() {
    if (state_.step % options_.snapshot_every == 0 || state_.step == steps_) state_.take_snapshot(*comm_, where_);
    newcomers found;
    if (comm_->is_main() && state_.step < steps_) found = growth_.find(roster_.numbers());
    std::array waiting{found.size()};
    all_reduce(*comm_, waiting, max{}, {}, where_);
    if (state_.should_save()) state_.save(*comm_, where_);
    if constexpr (std::same_as<Transport, shm>)
      if (waiting[0] > 0) grow(found, waiting[0]);
  }

  // Whether all ranks have completed the last step and are alive.
  bool finish() {
    if (!comm_->can_shrink()) barrier(*comm_, {}, where_);
    else if (decide({.agrees = true, .intact = true, .takes_back = true}) != outcome::agreed) return false;
    lookout_->end();
    return true;
  }

  // Ranks that do not come within `exclude_after` are taken for lost, unless it is 0.
  outcome decide(tutti::detail::opinion mine) {
    return decided(comm_->agree(flags_of(mine), {.exclude_after = options_.exclude_after}, where_));
  }
  int flags_of(tutti::detail::opinion mine) const {
    mine.takes_back &= setbacks_.may_have_another();
    return tutti::detail::flags_of(mine);
  }
  outcome decided(agreement const& all) {
    auto const [what, all_take_back] = tutti::detail::decision_of(all);
    takes_back_ = all_take_back;
    return what;
  }

  // Called by all survivors after a vote. `why`: what this rank has caught, if anything. A rank that others have waited for, but
  // that is back before they have excluded it, goes on with them.
  void shrink(std::exception_ptr const& why) {
    lookout_.reset();
    ready_ = false;
    communicator<Transport> next = comm_->shrink({.exclude_after = options_.exclude_after}, where_);
    bool const all_live = next.size() == comm_->size();
    if (!all_live) roster_.lose_all_but(next.survivors(), why);
    enter(std::move(next));
    setbacks_.note_shrink(all_live);
    if (!all_live || takes_back_) return;
    if (why) std::rethrow_exception(why);
    tutti::detail::give_up_with_others(comm_->rank(), where_);
  }

  // The ranks and those that wait become a new communicator, or the ranks go on as they are.
  void grow(newcomers const& found, std::size_t count) {
    if (!state_.has_snapshot_of(state_.step)) state_.take_snapshot(*comm_, where_);
    auto met = growth_.meet(*comm_, found, count,
                            {.within = options_.join_within,
                             .word = state_.generation + 1,
                             .flags = flags_of({.agrees = true, .intact = true, .takes_back = true}),
                             .exclude_after = options_.exclude_after},
                            where_);
    outcome const all = decided(met.result.vote);
    if (all == outcome::agreed) {
      lookout_.reset();
      ready_ = false;
      roster_.append(met.numbers);
      return enter(*std::move(met.result.comm));
    }
    growth_.give_up(met);
    if (all == outcome::lost) throw vote_on_loss();
  }

  // In a process that is to join.
  void join() {
    if constexpr (std::same_as<Transport, shm>) {
      roster_.begin(0);  // the others are not known yet
      comm_.emplace(growth_.enter(state_.generation));
    }
  }

  // The program's objects on the present communicator still exist.
  void enter(communicator<Transport> next) {
    former_.push_back(std::move(*comm_));
    comm_ = std::move(next);
    ++state_.generation;
  }

  void expect_enough() {
    int const least = options_.min_ranks > 0 ? options_.min_ranks
                      : job_.min_ranks > 0   ? job_.min_ranks
                                             : (most_ranks_ + 1) / 2;
    if (comm_->size() >= least) return;
    is_fatal_ = true;
    tutti::detail::refuse_too_few({.ranks = comm_->size(), .least = least, .most = most_ranks_}, comm_->rank(),
                                  roster_.failed(), options_.folder, state_.saved, where_);
  }

  elastic_options const options_;
  tutti::detail::elastic_job const job_ = tutti::detail::elastic_job::from_environment();
  tutti::detail::roster roster_{options_.report};
  tutti::detail::growth growth_{options_, roster_};
  tutti::detail::elastic_state<Transport> state_;
  std::vector<communicator<Transport>> former_;
  std::optional<communicator<Transport>> comm_;
  int most_ranks_ = 0;  // that there have been at once
  std::uint64_t steps_ = 0;
  tutti::detail::setbacks setbacks_;
  bool ready_ = false, is_fatal_ = false, takes_back_ = false;
  std::source_location where_{};
  std::optional<tutti::detail::lookout<Transport>> lookout_;  // before all that its thread uses goes
};

template <class Transport>
elastic_loop(communicator<Transport>) -> elastic_loop<Transport>;
template <class Transport>
elastic_loop(communicator<Transport>, elastic_options) -> elastic_loop<Transport>;
elastic_loop() -> elastic_loop<shm>;
elastic_loop(elastic_options) -> elastic_loop<shm>;

}  // namespace tutti::training
