// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce of virtual ranks with an epilogue on rows, on any device.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "support/device_collectives.hpp"
#include "support/device_rows.hpp"
#include "support/row_reference.hpp"
#include "tutti/device/local/cuda_local.hpp"

namespace tutti::testing {

// What is wrong with the mean of rows, normalised and added to a residual: nothing, or where.
template <class T, detail::device D>
std::string wrong_rows_of(D const& on, int ranks, std::size_t rows, std::size_t length) {
  std::size_t const n = rows * length;
  ranks_values<T> values;
  for (int r = 0; r < ranks; ++r) values.push_back(row_values<T>(r, n));
  auto const in = to_device(on, values), weights = to_device(on, ranks_values<T>{row_values<T>(1001, length)}),
             residual = to_device(on, ranks_values<T>{row_values<T>(1000, n)});
  auto const out = to_device(on, ranks_values<float>(static_cast<std::size_t>(ranks), std::vector<float>(n)));
  cuda_local const all(on, ranks);
  all_reduce(
      all, in, out,
      by_rows(mean{}, length, with_residual(with_columns(rms_norm{1e-5f}, weights[0].data()), residual[0].data())));
  auto const got = to_host(on, out);
  auto const after = to_host(on, residual)[0];
  auto const before = row_values<T>(1000, n);
  for (std::size_t i = 0; i < n; ++i) {
    float sum = detail::widened<float>(values[0][i]);
    for (std::size_t r = 1; r < values.size(); ++r) sum += detail::widened<float>(values[r][i]);
    float const mean = detail::widened<float>(detail::narrowed<T>(sum / static_cast<float>(ranks)));
    if (!same_bits<T>(after[i], detail::narrowed<T>(mean + detail::widened<float>(before[i]))))
      return detail::join({"the residual at element ", i});
  }
  for (std::size_t row = 0; row < rows; ++row) {
    doubles const expected =
        rms_norm_of(row_of(after, row, length), row_of(row_values<T>(1001, length), 0, length), 1e-5);
    for (std::size_t i = 0; i < length; ++i)
      for (auto const& its : got)
        if (std::abs(double{its[row * length + i]} - expected[i]) > roundings_of_row(length) * std::abs(expected[i]))
          return detail::join({"row ", row, ", column ", i});
  }
  return {};
}

}  // namespace tutti::testing
