// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Refuses buffers that work on a device cannot access, because the attempt would spoil the device for the whole process.
#pragma once

#include <cstddef>
#include <source_location>
#include <span>
#include <string_view>

#include "tutti/algorithm/collective.hpp"
#include "tutti/call/check_arguments.hpp"
#include "tutti/call/communicator.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/model/device.hpp"

namespace tutti::detail {

// `size`: of the buffer of a rank, in any unit. Throws error: bad_argument.
template <device D>
void expect_accessible(std::string_view call, std::span<D const* const> users, side s, int rank, void const* memory,
                       std::size_t size, std::source_location where) {
  if constexpr (inspecting_device<D>) {
    if (memory == nullptr || size == 0) return;
    if (auto const wrong = users[0]->objection_to(memory, users))
      refuse(rank, join({"the ", name(s), " of ", call, " ", wrong->what}), wrong->way_out, where);
  }
}
template <collective C, device D>
void expect_accessible(std::span<D const* const> users, side s, int rank, void const* memory, std::size_t size,
                       std::source_location where) {
  expect_accessible(name(C), users, s, rank, memory, size, where);
}

}  // namespace tutti::detail
