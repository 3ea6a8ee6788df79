// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A message that is not the one that the schedule says comes next.
#pragma once

#include <cstddef>

#include "tutti/core/config.hpp"

namespace tutti::detail {

// Left by an execution for the caller to report: the data path itself throws nothing.
struct surprise {
  int peer = -1;
  bool other_call = false;  // it belongs to another call
  int refused = 0;          // errno: it could not be fetched; otherwise it has another length:
  std::size_t bytes = 0;
  bool more = false;  // and further slices follow
  std::size_t expected = 0;
  bool expected_more = false;

  TUTTI_HOST_DEVICE explicit operator bool() const { return peer >= 0; }
};

}  // namespace tutti::detail
