// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Takes all ranks of a pipeline through their steps, in an order in which every pass has what it needs.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "tutti/training/schedule/dynamic.hpp"

namespace tutti::detail {

// Values of all passes of a pipeline: by pass, stage and microbatch.
template <class T>
class by_action {
 public:
  by_action(int stages, int microbatches)
      : microbatches_(static_cast<std::size_t>(microbatches)),
        values_(2 * static_cast<std::size_t>(stages) * microbatches_) {}

  T& operator[](training::pipeline_action const& a) { return values_[index(a)]; }
  template <class F>
  void for_each(F&& f) {
    for (T& value : values_) f(value);
  }

 private:
  std::size_t index(training::pipeline_action const& a) const {
    std::size_t const stage = 2 * static_cast<std::size_t>(a.stage) + (a.pass == training::pipeline_pass::backward);
    return stage * microbatches_ + static_cast<std::size_t>(a.microbatch);
  }

  std::size_t microbatches_;
  std::vector<T> values_;
};

// Calls f(rank, i, action) for each step, after the step whose result it needs. Sends do not block, so only missing results
// make a rank wait. Returns how many steps each rank has done: less than all where ranks wait for each other.
// All actions must exist.
template <class F>
std::vector<int> in_order_of_needs(training::dynamic_pipeline_schedule const& schedule, training::pipeline_shape s,
                                   F&& f) {
  int const stages = schedule.stages(s);
  by_action<char> done(stages, s.microbatches);
  std::vector<int> reached(static_cast<std::size_t>(s.ranks)), steps;
  for (int rank = 0; rank < s.ranks; ++rank) steps.push_back(training::pipeline_steps(schedule, s, rank));
  for (bool moved = true; std::exchange(moved, false);)
    for (int rank = 0; rank < s.ranks; ++rank) {
      int& i = reached[static_cast<std::size_t>(rank)];
      for (; i < steps[static_cast<std::size_t>(rank)]; ++i) {
        auto const action = schedule.at(s, rank, i);
        int const before = stage_before(action);
        if (before >= 0 && before < stages && done[{action.pass, before, action.microbatch}] == 0) break;
        f(rank, i, action);
        done[action] = 1;
        moved = true;
      }
    }
  return reached;
}

}  // namespace tutti::detail
