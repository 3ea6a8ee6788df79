// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A schedule that is chosen at run time: one type for all of them, so what takes a schedule is compiled once.
#pragma once

#include "tutti/algorithm/concept.hpp"

namespace tutti {

// Host only: a step costs a call through a pointer, a few nanoseconds beside a message's hundreds.
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

  constexpr int lanes(shape s) const { return functions_->lanes(s); }
  constexpr int phases(shape s) const { return functions_->phases(s); }
  constexpr int chunks(shape s) const { return functions_->chunks(s); }
  constexpr int steps(shape s, position me) const { return functions_->steps(s, me); }
  constexpr step at(shape s, position me, int i) const { return functions_->at(s, me, i); }

  bool needs_commutative = false;
  bool pipelined = false;
  bool in_place = false;
  bool direct = false;
  bool direct_in_place = false;
  bool fetchable = false;
  bool scratch = false;
  bool ragged = false;

 private:
  struct functions {
    int (*lanes)(shape);
    int (*phases)(shape);
    int (*chunks)(shape);
    int (*steps)(shape, position);
    step (*at)(shape, position, int);
  };

  template <step_function S>
  static constexpr functions functions_of{
      [](shape s) { return S{}.lanes(s); },
      [](shape s) { return S{}.phases(s); },
      [](shape s) { return S{}.chunks(s); },
      [](shape s, position me) { return S{}.steps(s, me); },
      [](shape s, position me, int i) { return S{}.at(s, me, i); },
  };

  functions const* functions_ = nullptr;
};

static_assert(step_function<dynamic_schedule>);

}  // namespace tutti
