// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A schedule that is chosen at run time: one type for all schedules, so code that takes one is compiled once.
#pragma once

#include "tutti/algorithm/concept.hpp"

namespace tutti {

// Host only. A step costs a call through a pointer: a few nanoseconds, where a message takes hundreds.
class dynamic_schedule {
 public:
  constexpr dynamic_schedule() = default;

  template <step_function S>
  static constexpr dynamic_schedule of() {
    dynamic_schedule out;
    out.needs_commutative = S::needs_commutative;
    out.pipelined = S::pipelined;
    out.in_place = S::in_place;
    out.direct = S::direct;
    out.direct_in_place = S::direct_in_place;
    out.fetchable = S::fetchable;
    out.scratch = S::scratch;
    out.ragged = S::ragged;
    out.functions_ = &functions_of<S>;
    return out;
  }

  constexpr explicit operator bool() const { return functions_ != nullptr; }

  TUTTI_HOST_DEVICE constexpr int lanes(shape const& s) const { return functions_->lanes(s); }
  TUTTI_HOST_DEVICE constexpr int phases(shape const& s) const { return functions_->phases(s); }
  TUTTI_HOST_DEVICE constexpr int chunks(shape const& s) const { return functions_->chunks(s); }
  TUTTI_HOST_DEVICE constexpr int steps(shape const& s, position const& me) const { return functions_->steps(s, me); }
  TUTTI_HOST_DEVICE constexpr step at(shape const& s, position const& me, int i) const {
    return functions_->at(s, me, i);
  }

  bool needs_commutative = false;
  bool pipelined = false;
  bool in_place = false;
  bool direct = false;
  bool direct_in_place = false;
  bool fetchable = false;
  bool scratch = false;
  bool ragged = false;

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

  template <step_function S>
  static constexpr functions functions_of{
      [](shape const& s) { return S{}.lanes(s); },
      [](shape const& s) { return S{}.phases(s); },
      [](shape const& s) { return S{}.chunks(s); },
      [](shape const& s, position const& me) { return S{}.steps(s, me); },
      [](shape const& s, position const& me, int i) { return S{}.at(s, me, i); },
  };

  functions const* functions_ = nullptr;
};

static_assert(step_function<dynamic_schedule>);

}  // namespace tutti
