// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The concept of a pipeline schedule: a pure function from (shape, rank, step number) to the pass that the rank computes.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string_view>

namespace tutti {
namespace training {

// What a schedule depends on: the ranks of the pipeline, and the microbatches into which a batch is divided.
struct pipeline_shape {
  int ranks = 1;
  int microbatches = 1;
};

enum class pipeline_pass : std::uint8_t { forward, backward };

// What a rank computes in a step: the forward or backward pass of a microbatch through a stage, a part of the model. The
// forward pass needs the activation of the stage before, the backward pass the gradient of the stage after; the first and
// the last stage need neither.
struct pipeline_action {
  pipeline_pass pass = pipeline_pass::forward;
  int stage = 0;  // among all stages of the model
  int microbatch = 0;

  friend constexpr bool operator==(pipeline_action const&, pipeline_action const&) = default;
};

// A schedule: an object whose at(shape, rank, i) is step i of a rank. A rank has two steps for each microbatch and each of
// its stages, a forward and a backward pass. Functions are pure and, by convention, constexpr; steps are never stored.
//
//   name                the name in errors, tools and pictures
//   stages(s)           the number of stages
//   rank_of(s, stage)   the rank that computes a stage
//   at(s, rank, i)      step i
//   live(s, rank)       the maximal number of activations that a rank keeps: of forward passes whose backward pass has not run
template <class S>
concept pipeline_schedule = std::copy_constructible<S> && requires(S const schedule, pipeline_shape s, int n) {
  { schedule.name } -> std::convertible_to<std::string_view>;
  { schedule.stages(s) } -> std::same_as<int>;
  { schedule.rank_of(s, n) } -> std::same_as<int>;
  { schedule.at(s, n, n) } -> std::same_as<pipeline_action>;
  { schedule.live(s, n) } -> std::same_as<int>;
};

// The usual properties of a schedule: a stage on each rank, in rank order. A schedule inherits them and overrides those that
// differ.
struct pipeline_schedule_defaults {
  constexpr int stages(pipeline_shape s) const { return s.ranks; }
  constexpr int rank_of(pipeline_shape s, int stage) const { return stage % s.ranks; }
};

// The number of steps of a rank.
template <pipeline_schedule S>
constexpr int pipeline_steps(S const& schedule, pipeline_shape s, int rank) {
  int out = 0;
  for (int stage = 0; stage < schedule.stages(s); ++stage)
    if (schedule.rank_of(s, stage) == rank) out += 2 * s.microbatches;
  return out;
}

}  // namespace training

namespace detail {

// The order of passes that most schedules share: `warm_up` forward passes, then a forward and a backward pass in turn, then
// the backward passes that are left, `total` of either kind. Step i is number `number` of its kind.
struct pass_in_turn {
  training::pipeline_pass pass;
  int number;

  static constexpr pass_in_turn at(int total, int warm_up, int i) {
    using enum training::pipeline_pass;
    if (i < warm_up) return {forward, i};
    int const turn = i - warm_up;
    if (turn >= 2 * (total - warm_up)) return {backward, i - total};
    return turn % 2 == 0 ? pass_in_turn{forward, warm_up + turn / 2} : pass_in_turn{backward, turn / 2};
  }
  static constexpr int live(int total, int warm_up) { return std::min(total, warm_up + 1); }
};

// The stage whose result an action needs, and the stage that needs its result; outside of the model at its ends.
constexpr int stage_before(training::pipeline_action a) {
  return a.pass == training::pipeline_pass::forward ? a.stage - 1 : a.stage + 1;
}
constexpr int stage_after(training::pipeline_action a) {
  return a.pass == training::pipeline_pass::forward ? a.stage + 1 : a.stage - 1;
}

}  // namespace detail
}  // namespace tutti
