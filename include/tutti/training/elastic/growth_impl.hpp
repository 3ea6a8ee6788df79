// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/elastic/growth.hpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "tutti/collective/broadcast.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/fault/survival.hpp"
#include "tutti/launch/place.hpp"
#include "tutti/training/elastic/growth.hpp"

namespace tutti::detail {

inline constexpr std::chrono::steady_clock::duration between_looks = std::chrono::milliseconds(20),
                                                     between_late_looks = std::chrono::milliseconds(500);

TUTTI_INLINE std::string name_of_loop(std::string const& job, int n) { return join({job, "-loop-", n}); }

// Of this process.
struct loops_so_far {
  std::atomic<int> made{0};
  std::atomic<bool> has_joined{false};
  std::mutex mutex;
  std::set<std::string> ended;  // the names of those that others could have joined
};
TUTTI_INLINE loops_so_far& all_loops() {
  static loops_so_far loops;
  return loops;
}

TUTTI_INLINE void growth::begin_as_rank(elastic_job const& job, int rank, int ranks, std::string_view transport,
                                        bool shares_memory) {
  if (job.joins_as >= 0 && !all_loops().has_joined)
    throw error({.code = error_code::bad_argument,
                 .what = join({"this process replaces member ", job.joins_as, ", but ranks over ", transport,
                               " cannot join others that run already"}),
                 .way_out =
                     "on one machine let elastic_loop(options) find the ranks, over shared memory; otherwise start the "
                     "job without --elastic, and survivors go on without the lost ranks"});
  number_ = rank;
  if (!shares_memory) return;
  tutti::place const me = find_place();
  most_members_ = std::max(me.size, job.max_ranks);
  if (me.launcher.empty() || ranks != me.size) return;
  number_ = me.rank;  // which differs from the rank if an earlier loop has lost members and found new ones
  name_ = name_of_loop(me.job, all_loops().made++);
}

TUTTI_INLINE void growth::begin_as_newcomer(elastic_job const& job) {
  number_ = job.joins_as;
  is_new_ = true;
  tutti::place const me = find_place();
  most_members_ = std::max(me.size, job.max_ranks);
  if (!me.launcher.empty() && number_ < most_members_) {
    name_ = name_of_loop(me.job, all_loops().made++);
    return;
  }
  throw error({.code = error_code::bad_argument,
               .what = join({join_variable, "=", number_,
                             me.launcher.empty() ? std::string(" is set, but no launcher has started this process")
                                                 : join({" is not a member of a job of ", most_members_}),
                             ", so no ranks would ask it to join"}),
               .way_out = "start the program with tutti-run --elastic, or unset the variable"});
}

TUTTI_INLINE void growth::note_run(bool runs) {
  if (name_.empty() || is_new_) return;
  std::lock_guard const lock(all_loops().mutex);
  if (runs) all_loops().ended.erase(name_);
  else all_loops().ended.insert(name_);
}

TUTTI_INLINE void growth::end_run(bool is_main) {
  note_run(false);
  next_late_look_ = {};
  if (is_main) turn_away_late();
}

TUTTI_INLINE void growth::turn_away_late() {
  auto const now = std::chrono::steady_clock::now();
  if (now < next_late_look_) return;
  next_late_look_ = now + between_late_looks;
  std::lock_guard const lock(all_loops().mutex);
  for (std::string const& name : all_loops().ended) find_newcomers(name, numbers_without({})).turn_away();
}

TUTTI_INLINE std::vector<int> growth::numbers_without(std::span<int const> present) const {
  std::vector<int> out;
  for (int number = 0; number < most_members_; ++number)
    if (std::ranges::count(present, number) == 0) out.push_back(number);
  return out;
}

TUTTI_INLINE newcomers growth::find(std::span<int const> present) {
  turn_away_late();
  auto const now = std::chrono::steady_clock::now();
  int const room = most_members_ - static_cast<int>(present.size());
  if (name_.empty() || room <= 0 || now < next_look_) return {};
  next_look_ = now + between_looks;
  return find_newcomers(name_, numbers_without(present), static_cast<std::size_t>(room));
}

TUTTI_INLINE growth::attempt growth::meet(communicator<shm>& comm, newcomers const& found, std::size_t count,
                                          grow_options const& options, std::source_location where) {
  attempt out;
  out.numbers = found.numbers();
  out.numbers.resize(count);
  broadcast(comm, out.numbers, 0, {}, where);
  int rank = comm.size();
  for (int const number : out.numbers) roster_.note(number, rank++, training::member_state::recovering, "");
  try {
    out.result = grow(comm, name_, found, options, where);
  } catch (error const& e) {
    out.result.why = e.happened();
    give_up(out);
    throw;
  }
  return out;
}

TUTTI_INLINE void growth::give_up(attempt const& failed) {
  for (int const number : failed.numbers) roster_.note(number, -1, training::member_state::failed, failed.result.why);
  // Those that cannot join may try for ever, and cost the others a tenth of their time at most.
  auto const now = std::chrono::steady_clock::now();
  next_look_ = now + std::max(between_looks, 10 * (now - failed.began));
}

TUTTI_INLINE communicator<shm> growth::enter(std::uint64_t& generation) {
  if (!door_) door_.emplace(name_, number_);
  auto [made, word] = door_->wait(options_.asked_within);
  generation = word;
  return std::move(made);
}

TUTTI_INLINE void growth::finish_joining() {
  if (!is_new_) return;
  report_join(number_);
  is_new_ = false;
  all_loops().has_joined = true;
  door_.reset();
}

}  // namespace tutti::detail
