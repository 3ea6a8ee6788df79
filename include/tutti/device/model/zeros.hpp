// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device memory that is zero before anything else uses it.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "tutti/core/wait.hpp"
#include "tutti/device/model/device.hpp"

namespace tutti::detail {

// Writes zeros, and waits for that, but no longer than `limit`: the default stream may be busy.
template <device D>
void write_zeros(D const& on, void* memory, std::size_t bytes,
                 std::chrono::nanoseconds limit = std::chrono::minutes{1}) {
  std::vector<std::byte> const zeros(bytes);
  on.copy({}, memory, zeros.data(), bytes);
  on.wait({}, deadline::after(limit));
}

}  // namespace tutti::detail
