// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The verifier, for errors in calls by a program's own algorithm. Calls do not compile it.
#pragma once

#include <string>

#include "tutti/algorithm/collective.hpp"
#include "tutti/algorithm/dynamic.hpp"

namespace tutti::detail {

// Returns what is wrong with a schedule for a shape, in a sentence; empty if nothing is.
using flaw_finder = std::string(dynamic_schedule const& of, collective what, shape const& s);

// Set in programs that include analyze/verify.hpp or link tutti::compiled; otherwise null.
inline flaw_finder* find_flaw = nullptr;

}  // namespace tutti::detail
