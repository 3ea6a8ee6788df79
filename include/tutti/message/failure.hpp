// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Why the messages of a communicator cannot continue.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/fault/transfer.hpp"

namespace tutti::detail {

// The caller of messenger::poll() reports it.
struct message_failure {
  transfer const* receive = nullptr;  // the receive that its message does not fit, or null
  int from = no_rank;
  int tag = 0;
  std::uint32_t type = 0;
  std::size_t bytes = 0;
  bool on_device = false;        // the data are in memory of a device
  int read_error = 0;            // errno, if the sender's memory could not be read
  bool out_of_sequence = false;  // a message was lost, repeated, truncated, damaged, or of another communicator

  explicit operator bool() const { return receive != nullptr || out_of_sequence; }
};

}  // namespace tutti::detail
