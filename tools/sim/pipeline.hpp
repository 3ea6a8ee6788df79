// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti-sim pipeline: schedules of pipeline parallelism, verified, simulated and drawn.
#pragma once

#include <algorithm>
#include <cmath>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "refuse.hpp"
#include "tutti/training/schedule/draw.hpp"
#include "tutti/training/schedule/registry.hpp"
#include "tutti/training/schedule/simulate.hpp"
#include "tutti/training/schedule/verify.hpp"
#include "write_picture.hpp"

namespace simulator {

struct pipeline_arguments {
  std::string schedule = "all";
  tutti::training::pipeline_shape shape{.ranks = 4, .microbatches = 8};
  int stages_per_rank = 2;
  tutti::training::pipeline_times times{};
  std::string svg;
};

inline void pipeline_options(CLI::App& to, pipeline_arguments& a) {
  to.add_option("schedule", a.schedule, "the schedule to draw; all: compare them")->capture_default_str();
  to.add_option("-r,--ranks", a.shape.ranks, "number of ranks")->capture_default_str();
  to.add_option("-m,--microbatches", a.shape.microbatches, "microbatches of a batch")->capture_default_str();
  to.add_option("-v,--stages", a.stages_per_rank, "stages on each rank, if it is interleaved")->capture_default_str();
  to.add_option("--forward", a.times.forward,
                "time of a rank's forward pass of a microbatch; without --svg, a drawing "
                "needs whole numbers")
      ->capture_default_str();
  to.add_option("--backward", a.times.backward, "time of its backward pass")->capture_default_str();
  to.add_option("--message", a.times.message, "time of a message")->capture_default_str();
  to.add_option("--svg", a.svg, "write an SVG file instead of text");
}

inline void check(pipeline_arguments const& a) {
  auto const& [ranks, microbatches] = a.shape;
  if (ranks < 1 || microbatches < 1 || a.stages_per_rank < 1)
    refuse("there must be ranks, microbatches and stages", "give 1 or more of each");
  if (1.0 * ranks * microbatches * a.stages_per_rank > 4e6)
    refuse("there are too many passes to simulate", "let ranks, microbatches and stages multiply to at most 4000000");
  auto const& [forward, backward, message] = a.times;
  if (!(forward > 0 && backward > 0 && message >= 0 && std::isfinite(forward + backward + message)))
    refuse("passes or messages have impossible times", "give positive numbers for passes, and 0 or more for messages");
}

// The times of a rank's passes are divided among its stages, so schedules can be compared.
inline tutti::training::pipeline_times times_of_stage(pipeline_arguments const& a, int stages) {
  double const share = static_cast<double>(a.shape.ranks) / stages;
  return {.forward = a.times.forward * share, .backward = a.times.backward * share, .message = a.times.message};
}

inline void compare_pipelines(pipeline_arguments const& a) {
  fmt::print("{:<14}{:>8}{:>12}{:>10}{:>24}\n", "schedule", "stages", "time", "bubble", "live activations");
  for (auto const& schedule : tutti::training::pipeline_schedules(a.stages_per_rank)) {
    int const stages = schedule.stages(a.shape);
    auto const seen = simulate_pipeline(schedule, a.shape, times_of_stage(a, stages));
    int least = schedule.live(a.shape, 0), most = least;
    for (int rank = 1; rank < a.shape.ranks; ++rank) {
      least = std::min(least, schedule.live(a.shape, rank));
      most = std::max(most, schedule.live(a.shape, rank));
    }
    fmt::print("{:<14}{:>8}{:>12.6g}{:>9.1f}%{:>24}\n", schedule.name, stages, seen.end, 100 * seen.bubble(),
               least == most ? fmt::format("{}", most) : fmt::format("{} to {}", least, most));
  }
  fmt::print("\nA live activation is that of one stage; an interleaved stage has 1/{} of the layers of the others.\n",
             a.stages_per_rank);
}

inline void draw_pipeline(pipeline_arguments const& a) {
  auto const schedule = tutti::training::find_pipeline_schedule(a.schedule, a.stages_per_rank);
  // A column of text is a unit of time for a single stage on a rank, and its share where there are several.
  auto const is_whole = [](double t) { return t == std::floor(t); };
  if (a.svg.empty() && !(is_whole(a.times.forward) && is_whole(a.times.backward) && is_whole(a.times.message)))
    refuse("a time is not a whole number of columns of the text", "give whole numbers, or draw it with --svg");
  double const columns = a.svg.empty() ? simulate_pipeline(schedule, a.shape, a.times).end : 0;
  if (columns > 10'000)
    refuse(fmt::format("the drawing would have {:g} columns, one for each unit of time", columns),
           "let the batch take at most 10000, or draw it with --svg");
  if (a.svg.empty()) return draw_pipeline_text(std::cout, schedule, a.shape, a.times);
  std::ostringstream svg;
  draw_pipeline_svg(svg, schedule, a.shape, times_of_stage(a, schedule.stages(a.shape)));
  write_picture(a.svg, svg.str());
}

inline void pipeline_command(pipeline_arguments const& a) {
  check(a);
  if (a.schedule == "all" && !a.svg.empty()) refuse("a picture shows one schedule", "name it: pipeline 1f1b --svg ...");
  if (a.schedule == "all") compare_pipelines(a);
  else draw_pipeline(a);
}

}  // namespace simulator
