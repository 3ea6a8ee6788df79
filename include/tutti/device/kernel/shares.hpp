// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the threads of a launch share its jobs: by teams of warps, or, where jobs are of uneven sizes, as much for each warp.
#pragma once

#include <cstddef>

#include "tutti/core/config.hpp"
#include "tutti/device/kernel/access.hpp"
#include "tutti/reduce/combine.hpp"

namespace tutti::detail {

// The members of a group that take every `teams`-th job from the `first` on. A team has whole warps, whose threads touch
// neighbouring memory.
struct team {
  static constexpr std::size_t block_bytes = access_bytes;
  int rank_, size_, first, teams;

  TUTTI_HOST_DEVICE int rank() const { return rank_; }
  TUTTI_HOST_DEVICE int size() const { return size_; }
};
// All members of a group, for one job.
template <class Group>
TUTTI_HOST_DEVICE team all_of(Group const& group) {
  return {group.rank(), group.size(), 0, 1};
}
inline constexpr int warp_threads = 32;
template <cooperating_group Group>
TUTTI_HOST_DEVICE int warp_size_in(Group const& group) {
  return group.size() % warp_threads == 0 ? warp_threads : 1;
}
template <cooperating_group Group>
TUTTI_HOST_DEVICE team team_of(Group const& group, int jobs) {
  int const warp = warp_size_in(group), warps = group.size() / warp;
  int const teams = jobs < warps ? jobs : warps, number = group.rank() / warp, first = number % teams;
  return {number / teams * warp + group.rank() % warp, (warps - first + teams - 1) / teams * warp, first, teams};
}

// Calls f(warp, job, begin, count) for the parts of jobs that this member's warp handles. The jobs follow each other, job j up to
// the end(j)-th element, and each warp gets as many elements as the others, up to `grain`. Parts of a job begin at multiples of it.
template <cooperating_group Group, class End, class F>
TUTTI_HOST_DEVICE void share_evenly(Group const& group, int jobs, End const& end, std::size_t grain, F const& f) {
  int const warp = warp_size_in(group);
  std::size_t const warps = static_cast<std::size_t>(group.size() / warp),
                    number = static_cast<std::size_t>(group.rank() / warp), all = jobs > 0 ? end(jobs - 1) : 0,
                    units = (all + grain - 1) / grain, begin = units * number / warps * grain,
                    behind = units * (number + 1) / warps * grain;
  if (begin == behind) return;
  team const mine{group.rank() % warp, warp, 0, 1};
  int job = 0;  // the first with elements behind `begin`
  for (int beyond = jobs; job < beyond;) {
    int const middle = (job + beyond) / 2;
    if (end(middle) > begin) beyond = middle;
    else job = middle + 1;
  }
  TUTTI_NO_UNROLL
  for (; job < jobs; ++job) {
    std::size_t const first = job > 0 ? end(job - 1) : 0, last = end(job);
    if (first >= behind) return;
    std::size_t const from = begin > first ? (begin - first) / grain * grain : 0,
                      to = behind < last ? (behind - first) / grain * grain : last - first;
    if (from < to) f(mine, job, from, to - from);
  }
}

}  // namespace tutti::detail
