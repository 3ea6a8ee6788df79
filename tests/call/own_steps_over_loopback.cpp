// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Wrong steps of a program's own algorithm over loopback.
// labels: threads twin
#include "call/own_steps.hpp"

TEST_CASE("steps of the program's own that would crash are refused over loopback") {
  own_steps::check_refusals([](int ranks, auto const& f) { tutti::run_threads(ranks, f); });
}
