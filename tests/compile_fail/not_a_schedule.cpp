// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A schedule that does not say how many steps it has is refused by the name of the concept.
// expect: step_function
#include "tutti/algorithm/dynamic.hpp"

struct lazy : tutti::schedule_defaults {
#ifdef TUTTI_CONTROL
  constexpr int steps(tutti::shape, tutti::position) const { return 0; }
#endif
  constexpr tutti::step at(tutti::shape, tutti::position, int) const { return {}; }
};

[[maybe_unused]] constexpr auto chosen = tutti::dynamic_schedule::of<lazy>();
