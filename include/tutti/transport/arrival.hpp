// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The message at the head of a channel.
#pragma once

#include <cstddef>

#include "tutti/core/config.hpp"

namespace tutti::detail {

struct arrival {
  enum states { nothing, message, mismatched } state = nothing;  // mismatched: it belongs to another call
  std::byte const* data = nullptr;
  std::size_t bytes = 0;
  bool more = false;     // further slices of the same message follow
  bool foreign = false;  // data is an address in the sender's process: fetch it

  TUTTI_HOST_DEVICE explicit operator bool() const { return state == message; }
};

}  // namespace tutti::detail
