// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A schedule that is chosen at run time: one type for all schedules, so code that takes one is compiled once. Its
// properties alone refer to no function.
#pragma once

#include "tutti/algorithm/concept.hpp"

namespace tutti {

// The properties of a schedule that do not depend on the shape; false if there is no schedule.
struct schedule_properties {
  bool exists = false;
  bool needs_commutative = false;
  bool at_once = false;
  bool pipelined = false;
  bool in_place = false;
  bool direct = false;
  bool direct_in_place = false;
  bool fetchable = false;
  bool scratch = false;
  bool ragged = false;

  template <class S>
  static constexpr schedule_properties of() {
    return {.exists = true,
            .needs_commutative = S::needs_commutative,
            .at_once = detail::combines_in_one_step<S>,
            .pipelined = S::pipelined,
            .in_place = S::in_place,
            .direct = S::direct,
            .direct_in_place = S::direct_in_place,
            .fetchable = S::fetchable,
            .scratch = S::scratch,
            .ragged = S::ragged};
  }

  constexpr explicit operator bool() const { return exists; }
};

// Host only. A step costs a call through a pointer: a few nanoseconds, where a message takes hundreds.
class dynamic_schedule : public schedule_properties {
 public:
  constexpr dynamic_schedule() = default;

  template <step_function S>
  static constexpr dynamic_schedule of() {
    return dynamic_schedule(schedule_properties::of<S>(), functions_of<S>);
  }

  TUTTI_HOST_DEVICE constexpr int lanes(shape const& s) const { return functions_->lanes(s); }
  TUTTI_HOST_DEVICE constexpr int phases(shape const& s) const { return functions_->phases(s); }
  TUTTI_HOST_DEVICE constexpr int chunks(shape const& s) const { return functions_->chunks(s); }
  TUTTI_HOST_DEVICE constexpr int steps(shape const& s, position const& me) const { return functions_->steps(s, me); }
  TUTTI_HOST_DEVICE constexpr step at(shape const& s, position const& me, int i) const {
    return functions_->at(s, me, i);
  }

 private:
  // Arguments are references because loading a struct of 12 bytes into two registers right after it was written field by field
  // takes 5 ns.
  struct functions {
    int (*lanes)(shape const&);
    int (*phases)(shape const&);
    int (*chunks)(shape const&);
    int (*steps)(shape const&, position const&);
    step (*at)(shape const&, position const&, int);
  };

  // Not lambdas, each of which would be one more class to compile for each schedule.
  template <class S>
  static constexpr int lanes_of(shape const& s) {
    return S{}.lanes(s);
  }
  template <class S>
  static constexpr int phases_of(shape const& s) {
    return S{}.phases(s);
  }
  template <class S>
  static constexpr int chunks_of(shape const& s) {
    return S{}.chunks(s);
  }
  template <class S>
  static constexpr int steps_of(shape const& s, position const& me) {
    return S{}.steps(s, me);
  }
  template <class S>
  static constexpr step step_of(shape const& s, position const& me, int i) {
    return S{}.at(s, me, i);
  }
  template <class S>
  static constexpr functions functions_of{lanes_of<S>, phases_of<S>, chunks_of<S>, steps_of<S>, step_of<S>};

  constexpr dynamic_schedule(schedule_properties const& properties, functions const& all)
      : schedule_properties(properties), functions_(&all) {}

  functions const* functions_ = nullptr;
};

static_assert(step_function<dynamic_schedule>);

}  // namespace tutti
