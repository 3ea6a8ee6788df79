// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A pipeline schedule that is chosen at run time: one type for all, so code that takes one is compiled once.
#pragma once

#include <concepts>
#include <memory>
#include <string_view>
#include <utility>

#include "tutti/training/schedule/schedule.hpp"

namespace tutti::training {

// Any schedule. A step costs a call through a pointer: nanoseconds, where a pass takes microseconds at least.
class dynamic_pipeline_schedule final {
 public:
  // A copy must be excluded first, because pipeline_schedule asks whether copies can be made.
  template <class S>
    requires(!std::same_as<S, dynamic_pipeline_schedule> && pipeline_schedule<S>)
  dynamic_pipeline_schedule(S schedule) : dynamic_pipeline_schedule(std::make_shared<S const>(std::move(schedule))) {}

 private:
  template <class S>
  explicit dynamic_pipeline_schedule(std::shared_ptr<S const> const& own)
      : schedule_(own), name(own->name), functions_(&functions_of<S>) {}

  std::shared_ptr<void const> schedule_;

 public:
  std::string_view name;  // may be a part of the schedule, which is therefore before it

  int stages(pipeline_shape s) const { return functions_->stages(schedule_.get(), s); }
  int rank_of(pipeline_shape s, int stage) const { return functions_->rank_of(schedule_.get(), s, stage); }
  pipeline_action at(pipeline_shape s, int rank, int i) const { return functions_->at(schedule_.get(), s, rank, i); }
  int live(pipeline_shape s, int rank) const { return functions_->live(schedule_.get(), s, rank); }

 private:
  struct functions {
    int (*stages)(void const*, pipeline_shape);
    int (*rank_of)(void const*, pipeline_shape, int);
    pipeline_action (*at)(void const*, pipeline_shape, int, int);
    int (*live)(void const*, pipeline_shape, int);
  };

  template <class S>
  static S const& as(void const* schedule) {
    return *static_cast<S const*>(schedule);
  }
  template <class S>
  static constexpr functions functions_of{
      [](void const* x, pipeline_shape s) { return as<S>(x).stages(s); },
      [](void const* x, pipeline_shape s, int stage) { return as<S>(x).rank_of(s, stage); },
      [](void const* x, pipeline_shape s, int rank, int i) { return as<S>(x).at(s, rank, i); },
      [](void const* x, pipeline_shape s, int rank) { return as<S>(x).live(s, rank); },
  };

  functions const* functions_;
};

static_assert(pipeline_schedule<dynamic_pipeline_schedule>);

}  // namespace tutti::training
