// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The check of the steps of a program's own algorithm. Only the verifier finds wrong results, but a call must not crash.
#pragma once

#include <source_location>

#include "tutti/execute/plan.hpp"

namespace tutti::detail {

// Throws bad_argument if a step of this rank would leave its memory, in a call among more than one rank. Called once for each new plan.
[[gnu::cold]] void expect_safe_steps(request const& r, int rank, int ranks, std::source_location where);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/call/own_steps_impl.hpp"
#endif
