// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Wrong steps of a program's own algorithm over shm.
// labels: processes
#include "call/own_steps.hpp"

TEST_CASE("steps of the program's own that would crash are refused over shm") {
  own_steps::check_refusals([](int ranks, auto const& f) { tutti::run_local(ranks, f); });
}
