// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A message that is not the one that the schedule expects next.
#pragma once

#include <cstddef>

#include "tutti/core/config.hpp"

namespace tutti::detail {

// Recorded by an execution and reported by its caller: the data path itself never throws.
struct protocol_violation {
  int peer = -1;
  bool other_call = false;  // the message belongs to another call
  int refused = 0;          // the errno of a fetch that failed; otherwise the message has another length:
  std::size_t bytes = 0;
  bool more = false;  // whether further slices follow
  std::size_t expected = 0;
  bool expected_more = false;

  TUTTI_HOST_DEVICE explicit operator bool() const { return peer >= 0; }
};

}  // namespace tutti::detail
