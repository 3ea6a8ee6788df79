// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays in the memory of stand-in devices, all of whose elements are alike.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include "support/sharing_stand_in.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/model/device.hpp"

namespace tutti::testing {

using array = detail::device_array<sharing_stand_in, float>;

inline array filled(sharing_stand_in const& on, std::size_t n, float value) {
  array out(on, n);
  std::vector<float> const values(n, value);
  on.copy({}, out.data(), values.data(), n * sizeof(float));
  on.wait({}, detail::deadline::after(std::chrono::seconds(10)));
  return out;
}
inline bool all_are(sharing_stand_in const& on, array const& data, float value) {
  std::vector<float> values(data.size());
  on.copy({}, values.data(), data.data(), data.size() * sizeof(float));
  on.wait({}, detail::deadline::after(std::chrono::seconds(10)));
  return std::ranges::all_of(values, [=](float x) { return x == value; });
}

}  // namespace tutti::testing
