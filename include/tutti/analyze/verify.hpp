// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Proves that a schedule is right for given ranks, by executing it on symbols: each contribution arrives once and in a legal
// order, all ranks get the same bits, no rank touches memory that it does not have, and nothing deadlocks.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "tutti/algorithm/concept.hpp"
#include "tutti/algorithm/flaw_finder.hpp"
#include "tutti/analyze/circumstances.hpp"
#include "tutti/analyze/step_check.hpp"
#include "tutti/analyze/symbolic_execution.hpp"
#include "tutti/analyze/verdict.hpp"

namespace tutti::analyze {

// Whether `schedule` does what the contract of `what` says, for `s` and under `how`. The answer depends on these alone, so a
// sweep over shapes and circumstances proves a schedule.
//
//   verdict v = verify(schedule<ring, collective::all_reduce>{}, collective::all_reduce, {.ranks = 5});
//   if (!v.ok) std::puts(v.why.c_str());
template <step_function S>
verdict verify(S const& schedule, collective what, shape s, circumstances how = {}) {
  try {
    check_schedule(schedule, what, s);
    if (s.ranks > 1) symbolic_execution<S>(schedule, what, s, how).run();
    return {};
  } catch (flaw& f) {
    return {false, std::move(f.why)};
  } catch (std::exception const& e) {
    return {false, std::string("the schedule throws: ") + e.what()};
  }
}

// The first flaw of a schedule in the circumstances that its properties allow. An error in a call by a program's own
// algorithm says what it finds.
[[gnu::cold]] std::string find_flaw(dynamic_schedule const& of, collective what, shape const& s);
inline bool const errors_say_flaws = (tutti::detail::find_flaw = find_flaw, true);

}  // namespace tutti::analyze

#if !defined(TUTTI_COMPILED)
#include "tutti/analyze/verify_impl.hpp"
#endif
