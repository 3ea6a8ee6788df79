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
#include "tutti/device/front/call.hpp"
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
// The buffers of a call of a rank on its device.
template <collective C, device D, class In, class Out>
void expect_accessible(D const& on, int rank, device_call<D, In, Out> const& c) {
  D const* const users[] = {&on};
  std::span<D const* const> const alone(users);
  expect_accessible<C>(alone, side::input, rank, c.in, c.given.end(), c.where);
  if (static_cast<void const*>(c.out) != c.in)
    expect_accessible<C>(alone, side::output, rank, c.out, c.got.end(), c.where);
}
// Arrays of a device, each of which work on it reads and writes; `call` continues "the input of".
template <device D, class List>
void expect_list_accessible(std::string_view call, D const& on, int rank, List const& list,
                            std::source_location where) {
  D const* const users[] = {&on};
  for (auto&& array : list) {
    auto const* const data = device_data(array);
    if (data == nullptr && array.size() > 0)
      refuse_null(rank, join({"an array of the list of ", call}), array.size(), where);
    expect_accessible(call, std::span<D const* const>(users), side::input, rank, data, array.size(), where);
  }
}

}  // namespace tutti::detail
