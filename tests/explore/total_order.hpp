// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether there is a single total order of all accesses and fences that are seq_cst.
#pragma once

#include "explore/execution.hpp"

namespace tutti::testing::explore {

// RC11's relation psc must have no cycle. For executions whose other rules hold.
bool has_total_order(execution const& e);

}  // namespace tutti::testing::explore
