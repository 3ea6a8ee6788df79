// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/schedule/verify.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include "tutti/analyze/deadlock.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/schedule/order.hpp"
#include "tutti/training/schedule/verify.hpp"

namespace tutti {
namespace detail {

TUTTI_INLINE std::string describe_pass(training::pipeline_action const& a) {
  return join({"the ", a.pass == training::pipeline_pass::forward ? "forward" : "backward", " pass of microbatch ",
               a.microbatch, " at stage ", a.stage});
}
TUTTI_INLINE std::string place_of_step(int rank, int i) { return join({"rank ", rank, ", step ", i, ": "}); }

// Each of these returns the first problem that it finds, or nothing.
TUTTI_INLINE std::string shape_problem(training::dynamic_pipeline_schedule const& schedule,
                                       training::pipeline_shape s) {
  if (s.ranks < 1 || s.microbatches < 1)
    return join({"a pipeline of ", s.ranks, " ranks and ", s.microbatches, " microbatches does nothing"});
  int const stages = schedule.stages(s);
  if (stages < 1) return join({"there are ", stages, " stages"});
  if (stages > std::numeric_limits<int>::max() / 2 / s.microbatches)
    return join({stages, " stages and ", s.microbatches, " microbatches have more passes than an int can count"});
  for (int stage = 0; stage < stages; ++stage)
    if (int const rank = schedule.rank_of(s, stage); rank < 0 || rank >= s.ranks)
      return join({"stage ", stage, " is on rank ", rank, ", but there are only ", s.ranks, " ranks"});
  return {};
}

TUTTI_INLINE std::string action_problem(training::dynamic_pipeline_schedule const& schedule, training::pipeline_shape s,
                                        int rank, training::pipeline_action const& a, by_action<char>& done) {
  using enum training::pipeline_pass;
  if (a.stage < 0 || a.stage >= schedule.stages(s))
    return join({"there is no stage ", a.stage, ", only ", schedule.stages(s)});
  if (a.microbatch < 0 || a.microbatch >= s.microbatches)
    return join({"there is no microbatch ", a.microbatch, ", only ", s.microbatches});
  if (int const owner = schedule.rank_of(s, a.stage); owner != rank)
    return join({describe_pass(a), " belongs to rank ", owner});
  if (done[a] != 0) return describe_pass(a) + " runs a second time";
  if (a.pass == backward && done[{forward, a.stage, a.microbatch}] == 0)
    return describe_pass(a) + " runs before the forward pass";
  done[a] = 1;
  return {};
}

// A rank by itself. It has as many steps as there are passes, so if none runs twice, all run.
TUTTI_INLINE std::string rank_problem(training::dynamic_pipeline_schedule const& schedule, training::pipeline_shape s,
                                      int rank, by_action<char>& done) {
  int const promised = schedule.live(s, rank), steps = training::pipeline_steps(schedule, s, rank);
  int live = 0, most = 0;
  for (int i = 0; i < steps; ++i) {
    auto const a = schedule.at(s, rank, i);
    std::string problem = action_problem(schedule, s, rank, a, done);
    live += a.pass == training::pipeline_pass::forward ? 1 : -1;
    most = std::max(most, live);
    if (problem.empty() && live > promised)
      problem = join({describe_pass(a), " makes ", live, " live activations, but live() is ", promised});
    if (!problem.empty()) return place_of_step(rank, i) + problem;
  }
  if (most < promised)
    return join({"rank ", rank, " has at most ", most, " live activations, but live() is ", promised});
  return {};
}

// The pass that a step waits for, as analyze::describe_deadlock asks for it.
struct pipeline_wait {
  training::pipeline_action what;
  std::string text() const { return "waits for " + describe_pass(what); }
};

TUTTI_INLINE std::string deadlock_problem(training::dynamic_pipeline_schedule const& schedule,
                                          training::pipeline_shape s) {
  auto const reached = in_order_of_needs(schedule, s, [](int, int, training::pipeline_action const&) {});
  auto const rank_at = [](std::size_t i) { return static_cast<int>(i); };
  auto const finished = [&](std::size_t i) { return reached[i] == training::pipeline_steps(schedule, s, rank_at(i)); };
  for (std::size_t i = 0; i < reached.size(); ++i)
    if (!finished(i))
      return analyze::describe_deadlock(
          i,
          [&](std::size_t at) {
            auto const a = schedule.at(s, rank_at(at), reached[at]);
            return pipeline_wait{{a.pass, stage_before(a), a.microbatch}};
          },
          [&](pipeline_wait const& w) { return static_cast<std::size_t>(schedule.rank_of(s, w.what.stage)); },
          [&](std::size_t at) { return finished(at) ? std::string() : place_of_step(rank_at(at), reached[at]); });
  return {};
}

}  // namespace detail

namespace training {

TUTTI_INLINE analyze::verdict verify_pipeline(dynamic_pipeline_schedule const& schedule, pipeline_shape s) {
  std::string why = tutti::detail::shape_problem(schedule, s);
  if (why.empty()) {
    tutti::detail::by_action<char> done(schedule.stages(s), s.microbatches);
    for (int rank = 0; rank < s.ranks && why.empty(); ++rank)
      why = tutti::detail::rank_problem(schedule, s, rank, done);
  }
  if (why.empty()) why = tutti::detail::deadlock_problem(schedule, s);
  return {why.empty(), why};
}

}  // namespace training
}  // namespace tutti
