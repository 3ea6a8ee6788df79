// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elastic training: a loop of steps that goes on when ranks are lost.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/call/survive.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/collective/barrier.hpp"
#include "tutti/collective/broadcast.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/fault/survival.hpp"
#include "tutti/launch/init.hpp"
#include "tutti/launch/newcomers.hpp"
#include "tutti/launch/place.hpp"
#include "tutti/training/elastic/elastic_options.hpp"
#include "tutti/training/elastic/elastic_state.hpp"
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
  // run(), when they have completed a step.
  // Throws error: as init does; bad_argument for options that make no sense.
  explicit elastic_loop(elastic_options options = {}, std::source_location where = std::source_location::current())
    requires std::same_as<Transport, shm>
      : elastic_loop(find_ranks(where), std::move(options)) {}

  // These ranks, over any transport that allows to shrink. All ranks pass the same options, but for `report`. Over shared memory
  // others may join them, if the communicator is that of all ranks of a launcher. Over MPI this is impossible.
  explicit elastic_loop(communicator<Transport> comm, elastic_options options = {})
      : elastic_loop(std::optional(std::move(comm)), std::move(options)) {
    if (job_.joins_as >= 0)
      throw error(
          {.code = error_code::bad_argument,
           .what = tutti::detail::join({"this process replaces member ", job_.joins_as, ", but ranks over ",
                                        Transport::name, " cannot join others that run already"}),
           .way_out =
               "on one machine let elastic_loop(options) find the ranks, over shared memory; otherwise start the "
               "job without --elastic, and survivors go on without the lost ranks"});
  }
  elastic_loop(elastic_loop const&) = delete;
  elastic_loop& operator=(elastic_loop const&) = delete;

  // Collective. Begins with the newest checkpoint, if there is any, and returns when all ranks have completed step `steps`, with
  // the last state in the arrays. May be called again, for further steps, which go on from there; new ranks can join only in the
  // first call, which is where they begin.
  //
  // Each rank passes  steps        the number of the last step, the same on all ranks; they are numbered from 1
  //                   state(comm)  returns the std::vector<saved_array> of the state. Called at the start and whenever the ranks have
  //                                changed: it makes what depends on the communicator, and gives divided arrays the size of this
  //                                rank's part. The previous communicator exists until it returns. The values of the arrays are
  //                                restored afterwards; at the very start, replicated ones are those of rank 0
  //                   step(comm, n)  takes step n. It may be called again for the same n, with the state as it was, if ranks are lost
  // Throws error      rank_lost if fewer than the least number of ranks are left, with what remains to be done; system if the only
  //                   copies of a part were lost, or a checkpoint cannot be written; bad_argument for arrays that are per_rank or
  //                   differ from those before, or other steps than on rank 0; excluded, on a rank without which the others have
  //                   gone on; and what state and step throw, unless it says that ranks were lost
  // Cost              per step: one all_reduce, a copy of the state, and a message with the parts of divided arrays
  template <class State, class Step>
  void run(std::uint64_t steps, State&& state, Step&& step,
           std::source_location where = std::source_location::current()) {
    where_ = where;
    steps_ = steps;
    ready_ = false;
    while (true) {
      std::exception_ptr why;
      try {
        if (!comm_) join();
        if (!ready_) prepare(state);
        while (ready_ && state_.step < steps) {
          step(*comm_, state_.step + 1);
          roster_.completed = ++state_.step;
          end_step();
        }
        if (!ready_) continue;
        if (finish()) return;
      } catch (vote_on_loss const&) {
      } catch (error const& e) {
        if (is_fatal_ || !comm_ || !tutti::detail::can_vote(*comm_) || !is_loss(e.code())) throw;
        why = std::current_exception();
        decide(false, false);
      }
      shrink(why);
    }
  }

  // The present one; another after each change of the ranks.
  communicator<Transport>& comm() noexcept { return *comm_; }
  // The steps that are completed. Any thread may ask for them and for the members, as `report` may.
  std::uint64_t step() const noexcept { return roster_.completed; }
  // All that this process has seen, by their numbers.
  std::vector<member> members() const { return roster_.members(); }

 private:
  // None if this process is to join others.
  static std::optional<communicator<Transport>> find_ranks(std::source_location where) {
    if constexpr (std::same_as<Transport, shm>)
      if (tutti::detail::elastic_job::from_environment().joins_as < 0) return init(tutti::detail::shipped, where);
    return {};
  }
  elastic_loop(std::optional<communicator<Transport>> comm, elastic_options options)
      : options_(std::move(options)), state_(options_), comm_(std::move(comm)) {
    tutti::detail::check_elastic_options(options_);
    if (std::same_as<Transport, shm>) place_ = find_place();
    most_members_ = std::max(place_.size, job_.max_ranks);
    if (!comm_) {
      number_ = job_.joins_as;
      is_new_ = true;
      expect_to_be_asked();
      return;
    }
    if (options_.exclude_after.count() > 0) tutti::detail::expect_able_to_exclude(comm_->engine(), {});
    if (comm_->size() != place_.size) place_ = {};
    number_ = comm_->rank();
    most_ranks_ = comm_->size();
    for (int r = 0; r < comm_->size(); ++r) numbers_.push_back(r);
  }

  // Nobody asks a process that joins no job, or as a member that the job does not have.
  void expect_to_be_asked() const {
    if (!place_.launcher.empty() && number_ < most_members_) return;
    using tutti::detail::join;
    throw error(
        {.code = error_code::bad_argument,
         .what = join({tutti::detail::join_variable, "=", number_,
                       place_.launcher.empty() ? std::string(" is set, but no launcher has started this process")
                                               : join({" is not a member of a job of ", most_members_}),
                       ", so no ranks would ask it to join"}),
         .way_out = "start the program by tutti-run --elastic, or unset the variable"});
  }

  // -- Votes.

  using outcome = tutti::detail::outcome;
  struct vote_on_loss {};  // thrown when a vote has told that ranks are lost

  outcome decide(bool agrees, bool intact) {
    return tutti::detail::vote(*comm_, agrees, intact, options_.exclude_after, where_);
  }
  bool is_loss(error_code code) const {
    return code == error_code::rank_lost || code == error_code::rank_left || code == error_code::revoked ||
           (code == error_code::timeout && options_.exclude_after.count() > 0);
  }

  // -- The group.

  template <class State>
  void prepare(State& state) {
    lookout_.reset();
    state_.describe(*comm_, state(*comm_), where_);
    former_.clear();  // what was made on them is gone
    std::vector const all = state_.tell(*comm_,
                                        {.steps = steps_,
                                         .meetings = meetings_,
                                         .number = number_,
                                         .most_ranks = most_ranks_,
                                         .is_new = is_new_ ? 1 : 0},
                                        where_);
    if (std::ranges::all_of(all, [](auto const& one) { return one.is_new != 0; })) {
      // The others have not got through their part of the meeting, and have gone on without these.
      former_.push_back(std::move(*comm_));
      comm_.reset();
      return;
    }
    tutti::detail::expect_same_steps(all, comm_->rank(), where_);
    for (auto const& one : all) {
      most_ranks_ = std::max(most_ranks_, one.most_ranks);
      meetings_ = std::max(meetings_, one.meetings);
    }
    expect_enough();
    state_.restore(*comm_, all, where_);
    roster_.completed = state_.step;
    state_.take_snapshot(*comm_, where_);
    barrier(*comm_, {}, where_);
    state_.forget_others();
    numbers_.clear();
    for (auto const& one : all) {
      numbers_.push_back(one.number);
      roster_.note(one.number, static_cast<int>(numbers_.size()) - 1, member_state::healthy, "");
    }
    lookout_.emplace(*comm_, options_.suspect_after, [this](int rank, bool suspected) {
      roster_.note(numbers_[static_cast<std::size_t>(rank)], rank,
                   suspected ? member_state::suspected : member_state::healthy,
                   suspected ? "other ranks wait for it" : "");
    });
    ready_ = true;
    if (is_new_) tutti::detail::report_join(number_);
    is_new_ = false;
    door_.reset();
    if (state_.should_save()) state_.save(*comm_, where_);
  }

  void end_step() {
    if (state_.step % options_.snapshot_every == 0 || state_.step == steps_) state_.take_snapshot(*comm_, where_);
    auto const newcomers = find_newcomers();
    std::array waiting{static_cast<std::uint64_t>(newcomers.size())};
    all_reduce(*comm_, waiting, max{}, {}, where_);
    if (state_.should_save()) state_.save(*comm_, where_);
    if constexpr (std::same_as<Transport, shm>)
      if (waiting[0] > 0) grow(newcomers, static_cast<int>(waiting[0]));
  }

  // Whether all ranks have completed the last step and are alive.
  bool finish() {
    if (!tutti::detail::can_vote(*comm_)) barrier(*comm_, {}, where_);
    else if (decide(true, true) != outcome::agreed) return false;
    lookout_->end();
    return true;
  }

  // Called by all survivors after a vote. `why`: what this rank has caught, if anything.
  void shrink(std::exception_ptr const& why) {
    lookout_.reset();
    ready_ = false;
    communicator<Transport> next = comm_->shrink({.exclude_after = options_.exclude_after}, where_);
    bool const all_live = next.size() == comm_->size();
    std::vector<int> left;
    for (int rank = 0, to = 0; rank < comm_->size(); ++rank) {
      int const number =
          numbers_.empty() ? -1 : numbers_[static_cast<std::size_t>(rank)];  // a new rank does not know them yet
      if (all_live || (to < next.size() && next.survivors()[static_cast<std::size_t>(to)] == rank)) {
        if (number >= 0) left.push_back(number);
        ++to;
      } else {
        roster_.note(number, rank, member_state::failed, all_live ? "" : text_of(why));
      }
    }
    numbers_ = std::move(left);
    ++state_.generation;
    replace_comm(std::move(next));
    if (!all_live) return;
    if (why) std::rethrow_exception(why);
    throw error({.code = error_code::revoked,
                 .rank = comm_->rank(),
                 .what = "another rank has given up this run, although no rank is lost",
                 .way_out = "check the output of the other ranks",
                 .where = where_});
  }

  // -- New ranks.

  static constexpr auto between_looks = std::chrono::milliseconds(20);

  // On rank 0, from time to time: those that wait.
  std::vector<tutti::detail::newcomer> find_newcomers() {
    std::vector<tutti::detail::newcomer> out;
    if (!comm_->is_main() || comm_->size() >= most_members_ || place_.launcher.empty() || state_.step == steps_)
      return out;
    auto const now = std::chrono::steady_clock::now();
    if (now < next_look_) return out;
    next_look_ = now + between_looks;
    for (int number = 0; number < most_members_ && comm_->size() + static_cast<int>(out.size()) < most_members_;
         ++number)
      if (std::ranges::count(numbers_, number) == 0)
        if (auto one = tutti::detail::find_newcomer(place_.job, number)) out.push_back(std::move(*one));
    return out;
  }

  // The ranks and those that wait become a new communicator, or the ranks go on as they are.
  void grow(std::vector<tutti::detail::newcomer> const& newcomers, int count)
    requires std::same_as<Transport, shm>
  {
    if (!state_.has_snapshot_of(state_.step)) state_.take_snapshot(*comm_, where_);
    std::vector<int> numbers(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < newcomers.size(); ++i) numbers[i] = newcomers[i].number;
    broadcast(*comm_, numbers, 0, {}, where_);
    for (int i = 0; i < count; ++i)
      roster_.note(numbers[static_cast<std::size_t>(i)], comm_->size() + i, member_state::recovering, "");
    std::optional<communicator<shm>> made;
    std::string trouble;
    auto const began = std::chrono::steady_clock::now();
    ++meetings_;
    try {
      made.emplace(tutti::detail::admit(
          *comm_, place_.job,
          {.generation = state_.generation + 1, .meeting = meetings_, .ranks = comm_->size() + count}, newcomers,
          options_.join_within));
    } catch (error const& e) {
      trouble = e.happened();
    }
    outcome const all = decide(made.has_value(), true);
    if (all == outcome::agreed) {
      ready_ = false;
      lookout_.reset();
      numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
      ++state_.generation;
      replace_comm(std::move(*made));
      return;
    }
    for (int const number : numbers) roster_.note(number, -1, member_state::failed, trouble);
    // Those that cannot join may try for ever, and cost the others a tenth of their time at most.
    auto const now = std::chrono::steady_clock::now();
    next_look_ = now + std::max<std::chrono::steady_clock::duration>(between_looks, 10 * (now - began));
    if (all == outcome::lost) throw vote_on_loss();
  }

  // In a process that joins: waits until the others have asked it, and are in a communicator with it.
  void join() {
    if constexpr (std::same_as<Transport, shm>) {
      tutti::detail::countdown until(options_.asked_within);
      if (!door_) door_.emplace(place_.job, number_);
      while (!comm_) {
        tutti::detail::invitation const invited = door_->wait(until);
        try {
          comm_.emplace(door_->join_as(invited, options_.join_within));
        } catch (error const&) {  // it may be asked again
          continue;
        }
        state_.generation = invited.generation;
        meetings_ = invited.meeting;
        numbers_.clear();
      }
    }
  }

  // The program's objects on the present one still exist.
  void replace_comm(communicator<Transport> next) {
    former_.push_back(std::move(*comm_));
    comm_ = std::move(next);
  }

  void expect_enough() {
    int const least = options_.min_ranks > 0 ? options_.min_ranks
                      : job_.min_ranks > 0   ? job_.min_ranks
                                             : (most_ranks_ + 1) / 2;
    if (comm_->size() >= least) return;
    std::vector<int> const lost = roster_.failed();
    is_fatal_ = true;
    using tutti::detail::join;
    throw error(
        {.code = error_code::rank_lost,
         .rank = comm_->rank(),
         .peer = lost.size() == 1 ? lost[0] : -1,
         .what = join({"of ", most_ranks_, " ranks, ", comm_->size(), " are left, and elastic training needs ", least,
                       "; lost are the members ", tutti::detail::list_of(lost), "; ", checkpoint_text()}),
         .way_out = "start the job again",
         .where = where_});
  }
  std::string checkpoint_text() const {
    using tutti::detail::join;
    if (options_.folder.empty()) return "there are no checkpoints, because no folder was named";
    if (state_.saved == 0) return join({"there is no checkpoint in ", options_.folder, " yet"});
    return join({"the newest checkpoint in ", options_.folder, " is that of step ", state_.saved});
  }

  static std::string text_of(std::exception_ptr const& why) {
    try {
      if (why) std::rethrow_exception(why);
    } catch (error const& e) {
      return e.happened();
    }
    return "its end was noticed by another rank";
  }

  elastic_options const options_;
  tutti::detail::elastic_job const job_ = tutti::detail::elastic_job::from_environment();
  tutti::detail::elastic_state<Transport> state_;
  std::vector<communicator<Transport>> former_;
  std::optional<communicator<Transport>> comm_;
  std::vector<int> numbers_;  // of the members, by rank
  tutti::place place_;        // if ranks can join
  int number_ = 0;            // of this member
  int most_ranks_ = 0;        // that there have been at once
  int most_members_ = 0;      // that there may be
  std::uint64_t meetings_ = 0;
  std::optional<tutti::detail::open_door> door_;
  std::chrono::steady_clock::time_point next_look_{};
  std::uint64_t steps_ = 0;
  bool ready_ = false, is_new_ = false, is_fatal_ = false;
  std::source_location where_{};
  tutti::detail::roster roster_{options_.report};
  std::optional<tutti::detail::lookout<Transport>> lookout_;  // before all that its thread uses goes
};

template <class Transport>
elastic_loop(communicator<Transport>) -> elastic_loop<Transport>;
template <class Transport>
elastic_loop(communicator<Transport>, elastic_options) -> elastic_loop<Transport>;
elastic_loop() -> elastic_loop<shm>;
elastic_loop(elastic_options) -> elastic_loop<shm>;

}  // namespace tutti::training
