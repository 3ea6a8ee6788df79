// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The median of measured values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

// Of at least one value; of an even number, the greater of the two in the middle.
inline double median(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}
