// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pipeline schedules: proved for many ranks and microbatches, compared with their published bubbles, and drawn. Broken ones are
// rejected.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "support/expect.hpp"
#include "tutti/training/schedule/draw.hpp"
#include "tutti/training/schedule/registry.hpp"
#include "tutti/training/schedule/simulate.hpp"
#include "tutti/training/schedule/verify.hpp"

using namespace tutti;
using namespace tutti::testing;
using namespace tutti::training;
using enum tutti::training::pipeline_pass;

namespace {

// Schedules are functions that a compiler can evaluate.
static_assert(gpipe{}.at({.ranks = 4, .microbatches = 3}, 2, 3) == pipeline_action{backward, 2, 0});
static_assert(one_forward_one_backward{}.at({.ranks = 4, .microbatches = 3}, 2, 2) == pipeline_action{backward, 2, 0});
static_assert(interleaved{}.at({.ranks = 2, .microbatches = 4}, 1, 2) == pipeline_action{forward, 3, 0});
static_assert(one_forward_one_backward{}.live({.ranks = 4, .microbatches = 8}, 1) == 3);

std::string problem_of_pipeline(dynamic_pipeline_schedule const& schedule, pipeline_shape s) {
  analyze::verdict const found = verify_pipeline(schedule, s);
  CHECK(found.ok == found.why.empty());
  return found.why;
}

std::string pipeline_text(dynamic_pipeline_schedule const& schedule, pipeline_shape s,
                          pipeline_times const& times = {}) {
  std::ostringstream out;
  draw_pipeline_text(out, schedule, s, times);
  return out.str();
}

// A schedule with another action in one step.
struct altered_pipeline {
  static constexpr std::string_view name = "altered";
  dynamic_pipeline_schedule base;
  int where, when;
  pipeline_action other;

  int stages(pipeline_shape s) const { return base.stages(s); }
  int rank_of(pipeline_shape s, int stage) const { return base.rank_of(s, stage); }
  int live(pipeline_shape s, int rank) const { return base.live(s, rank); }

  pipeline_action at(pipeline_shape s, int rank, int i) const {
    return rank == where && i == when ? other : base.at(s, rank, i);
  }
};
// Of three ranks and four microbatches.
std::string problem_with(dynamic_pipeline_schedule const& schedule, int rank, int i, pipeline_action other) {
  return problem_of_pipeline(altered_pipeline{schedule, rank, i, other}, {.ranks = 3, .microbatches = 4});
}

// The last rank takes the microbatches in another order than the first, which does not run ahead.
struct crossed : pipeline_schedule_defaults {
  static constexpr std::string_view name = "crossed";
  pipeline_action at(pipeline_shape s, int rank, int i) const {
    int const turn = i / 2;
    return {i % 2 == 0 ? forward : backward, rank, rank == 0 ? turn : s.microbatches - 1 - turn};
  }
  int live(pipeline_shape, int) const { return 1; }
};

struct greedy : one_forward_one_backward {
  int live(pipeline_shape s, int) const { return s.ranks; }
};
struct modest : gpipe {
  int live(pipeline_shape s, int) const { return s.microbatches - 1; }
};
struct misplaced : gpipe {
  int rank_of(pipeline_shape s, int stage) const { return stage + (stage == s.ranks - 1 ? 1 : 0); }
};
struct without_stages : gpipe {
  int stages(pipeline_shape) const { return 0; }
};

}  // namespace

TEST_CASE("every pipeline schedule is right for 1 to 9 ranks, 16 ranks, and any number of microbatches") {
  for (int const stages_per_rank : {1, 2, 3})
    for (auto const& schedule : pipeline_schedules(stages_per_rank)) {
      if (stages_per_rank > 1 && schedule.stages({}) == 1) continue;  // done before
      for (int const ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16})
        for (int const microbatches : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 15, 16, 17, 23, 40})
          if (std::string const why = problem_of_pipeline(schedule, {ranks, microbatches}); !why.empty())
            FAIL_CHECK(schedule.name, ", ", stages_per_rank, " stages on each of ", ranks, " ranks, ", microbatches,
                       " microbatches: ", why);
    }
}

TEST_CASE("the live activations of a pipeline are those that are published") {
  pipeline_shape const s{.ranks = 4, .microbatches = 8};
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(gpipe{}.live(s, rank) == 8);
    CHECK(one_forward_one_backward{}.live(s, rank) == 4 - rank);
    CHECK(interleaved{.stages_per_rank = 2}.live(s, rank) == 4 + 2 * (3 - rank) + 1);
  }
}

TEST_CASE("broken pipeline schedules are rejected") {
  CHECK(problem_with(gpipe{}, 1, 2, {forward, 1, 1}) ==
        "rank 1, step 2: the forward pass of microbatch 1 at stage 1 runs a second time");
  CHECK(problem_with(gpipe{}, 1, 6, {backward, 1, 0}) ==
        "rank 1, step 6: the backward pass of microbatch 0 at stage 1 runs a second time");
  CHECK(problem_with(one_forward_one_backward{}, 2, 1, {backward, 2, 1}) ==
        "rank 2, step 1: the backward pass of microbatch 1 at stage 2 runs before the forward pass");
  CHECK(problem_with(gpipe{}, 0, 0, {forward, 1, 0}) ==
        "rank 0, step 0: the forward pass of microbatch 0 at stage 1 belongs to rank 1");
  CHECK(problem_with(gpipe{}, 0, 3, {forward, 0, 4}) == "rank 0, step 3: there is no microbatch 4, only 4");
  CHECK(problem_with(gpipe{}, 0, 3, {forward, -1, 3}) == "rank 0, step 3: there is no stage -1, only 3");
  CHECK(problem_of_pipeline(crossed{}, {.ranks = 2, .microbatches = 2}) ==
        "deadlock: rank 0, step 1: waits for the backward pass of microbatch 0 at stage 1; rank 1, step 0: waits for "
        "the forward pass of microbatch 1 at stage 0");
  CHECK(problem_of_pipeline(greedy{}, {.ranks = 3, .microbatches = 4}) ==
        "rank 1 has at most 2 live activations, but live() is 3");
  CHECK(problem_of_pipeline(modest{}, {.ranks = 2, .microbatches = 3}) ==
        "rank 0, step 2: the forward pass of microbatch 2 at stage 0 makes 3 live activations, but live() is 2");
  CHECK(problem_of_pipeline(misplaced{}, {.ranks = 2, .microbatches = 1}) ==
        "stage 1 is on rank 2, but there are only 2 ranks");
  CHECK(problem_of_pipeline(without_stages{}, {.ranks = 2, .microbatches = 1}) == "there are 0 stages");
  CHECK(problem_of_pipeline(gpipe{}, {.ranks = 2, .microbatches = 0}) ==
        "a pipeline of 2 ranks and 0 microbatches does nothing");
  CHECK(contains(error_of([] { return simulate_pipeline(crossed{}, {.ranks = 2, .microbatches = 2}).end; }),
                 "deadlock: rank 0"));
}

TEST_CASE("the bubble of a pipeline is that of its paper") {
  for (int const ranks : {1, 2, 3, 4, 8})
    for (int const microbatches : {1, 2, 4, 7, 8, 16, 24})
      for (double const back : {1.0, 2.0}) {
        CAPTURE(ranks);
        CAPTURE(microbatches);
        pipeline_shape const s{ranks, microbatches};
        double const published = (ranks - 1.0) / microbatches;
        pipeline_times const times{.forward = 1, .backward = back};
        CHECK(simulate_pipeline(gpipe{}, s, times).bubble() == doctest::Approx(published));
        CHECK(simulate_pipeline(one_forward_one_backward{}, s, times).bubble() == doctest::Approx(published));
        for (int const v : {2, 3}) {
          double const bubble = simulate_pipeline(interleaved{.stages_per_rank = v}, s, times).bubble();
          if (microbatches % ranks == 0) CHECK(bubble == doctest::Approx(published / v));
          else CHECK(bubble <= published + 1e-9);
        }
      }
}

TEST_CASE("times that are negative or not finite are refused") {
  constexpr double infinite = std::numeric_limits<double>::infinity(), none = std::numeric_limits<double>::quiet_NaN();
  for (pipeline_times const& times : {pipeline_times{.forward = -1}, pipeline_times{.backward = none},
                                      pipeline_times{.message = infinite}, pipeline_times{.message = -1}}) {
    std::ostringstream to;
    CHECK(contains(error_of([&] { return draw_pipeline_text(to, gpipe{}, {.ranks = 2, .microbatches = 2}, times), 0; }),
                   "passes of a pipeline take "));
  }
  CHECK(
      contains(error_of([] { return simulate_pipeline(gpipe{}, {.ranks = 2, .microbatches = 2}, {.forward = 1e308}); }),
               "longer than a number can say"));
}

TEST_CASE("messages of a pipeline take time once in gpipe, and again in each turn of 1F1B") {
  pipeline_shape const s{.ranks = 4, .microbatches = 8};
  pipeline_times const times{.forward = 1, .backward = 2, .message = 0.25};
  CHECK(simulate_pipeline(gpipe{}, s, times).end == doctest::Approx(11 * 3 + 6 * 0.25));
  CHECK(simulate_pipeline(one_forward_one_backward{}, s, times).end > 11 * 3 + 6 * 0.25);
}

TEST_CASE("pictures of pipelines") {
  CHECK(pipeline_text(one_forward_one_backward{}, {.ranks = 2, .microbatches = 3}) ==
        "time    0  1  2  3  4  5  6  7  8  9  10 11\n"
        "rank 0  F0 F1 .  .  B0 -- F2 B1 -- .  B2 --\n"
        "rank 1  .  F0 B0 -- F1 B1 -- F2 B2 --\n");
  CHECK(pipeline_text(interleaved{}, {.ranks = 2, .microbatches = 2}, {.forward = 1, .backward = 1}) ==
        "time    0   1   2   3   4   5   6   7   8   9\n"
        "rank 0  F0a F1a F0b F1b .   B0b .   B1b B0a B1a\n"
        "rank 1  .   F0a F1a F0b B0b F1b B1b B0a B1a\n");
  for (auto const& schedule : pipeline_schedules())
    for (int const ranks : {1, 3}) {
      CAPTURE(schedule.name);
      std::string const text = pipeline_text(schedule, {ranks, 5});
      CHECK(std::ranges::count(text, '\n') == 1 + ranks);
      std::ostringstream svg;
      draw_pipeline_svg(svg, schedule, {ranks, 5}, {.forward = 0.5, .backward = 1.3, .message = 0.1});
      CHECK(svg.view().starts_with("<svg "));
      CHECK(svg.view().ends_with("</svg>\n"));
      std::size_t passes = 0;
      for (std::size_t at = 0; (at = svg.view().find("<title>", at)) != std::string_view::npos; ++at) ++passes;
      CHECK(passes == static_cast<std::size_t>(2 * 5 * schedule.stages({ranks, 5})));
    }
}

TEST_CASE("pipeline schedules are found by their names") {
  CHECK(find_pipeline_schedule("1f1b").name == "1f1b");
  CHECK(find_pipeline_schedule("interleaved", 3).stages({.ranks = 2, .microbatches = 1}) == 6);
  CHECK(contains(error_of([] { return find_pipeline_schedule("2f2b").name; }),
                 "\"2f2b\" is not a pipeline schedule; the schedules are: gpipe, 1f1b, interleaved"));
}

TEST_CASE("passes that an int cannot count are refused before they are computed") {
  CHECK(problem_of_pipeline(gpipe{}, {.ranks = 4, .microbatches = 1 << 29}) ==
        "4 stages and 536870912 microbatches have more passes than an int can count");
}

TEST_CASE("a schedule may keep its own name") {
  struct named : gpipe {
    explicit named(std::string some) : name(std::move(some)) {}
    std::string name;
  };
  dynamic_pipeline_schedule const schedule(named("mine"));
  auto const other = std::make_unique<dynamic_pipeline_schedule>(named("another"));
  CHECK(schedule.name == "mine");
  CHECK(other->name == "another");
}
