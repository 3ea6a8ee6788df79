// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fault of a communicator whose ranks are all on one node, before that node carries out a call or message of it.
#pragma once

#include <source_location>

#include "tutti/call/engine.hpp"

namespace tutti::detail {

// Throws a fault of the whole, whose calls and messages its only node has.
template <transport Whole, transport Node>
void expect_no_fault_around(engine<Whole>& whole, engine<Node>& node, std::source_location where) {
  try {
    whole.expect_no_fault(where);
  } catch (...) {
    node.give_up_in_flight();
    throw;
  }
}

}  // namespace tutti::detail
