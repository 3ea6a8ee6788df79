// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks by each rank of the norm of gradients and of clipping. The norm is compared with that in double.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "support/device_rows.hpp"
#include "support/expect.hpp"
#include "tutti/device/front/gradient_norm.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// The squares of all elements of the arrays of these lengths at a rank, whose values differ between ranks if `rank` does.
template <class T>
double squares_of(int rank, std::vector<std::size_t> const& lengths) {
  double out = 0;
  for (std::size_t const n : lengths)
    for (T const x : row_values<T>(rank, n)) {
      double const value = double{detail::widened<float>(x)};
      out += value * value;
    }
  return out;
}

template <class T, class R, class Comm>
void check_norm(R& ranks, Comm& comm, std::vector<std::size_t> const& lengths, float limit, gradients passed,
                detail::device_options_of<R> const& how) {
  using array = detail::device_array<typename R::device_type, T>;
  auto const& on = ranks.on();
  int const values_of = passed == gradients::equal ? 0 : comm.rank();
  std::vector<array> arrays;
  for (std::size_t const n : lengths) arrays.emplace_back(on, n + 1);
  gradient_norm norm(ranks, 3 * detail::norm_chunk, lengths.size());
  barrier(comm);
  std::vector<std::span<T>> list;
  for (std::size_t k = 0; k < lengths.size(); ++k) {
    list.emplace_back(arrays[k].data() + k % 2, lengths[k]);
    auto const values = row_values<T>(values_of, lengths[k]);
    on.copy(how.stream, list[k].data(), values.data(), list[k].size_bytes());
    on.wait(how.stream, detail::deadline::after(std::chrono::minutes{5}));
  }
  norm.measure(list, limit, how, passed);
  norm.clip(list, how);
  float got[2];
  on.copy(how.stream, got, norm.norm(), sizeof got);
  on.wait(how.stream, detail::deadline::after(std::chrono::minutes{5}));

  double squares = 0;
  for (int q = 0; q < comm.size(); ++q)
    if (q == values_of || passed == gradients::in_shards) squares += squares_of<T>(q, lengths);
  double const expected = std::sqrt(squares), factor = std::min(1.0, double{limit} / (expected + 1e-6));
  double const bound = std::ldexp(1.0, -21);
  expect(std::abs(double{got[0]} - expected) <= bound * expected,
         detail::join({"the norm is ", std::to_string(got[0]), " instead of ", std::to_string(expected)}));
  expect(std::abs(double{got[1]} - factor) <= 2 * bound * factor, "the factor of the norm is wrong");
  std::vector<float> const own{got[0], got[1]};
  std::vector<float> all(own.size() * static_cast<std::size_t>(comm.size()));
  all_gather(comm, own, all);
  for (std::size_t i = 0; i < all.size(); ++i)
    expect(same_bits<float>(all[i], got[i % 2]), "ranks have different norms");
  for (auto const& data : list) {
    auto const values = row_values<T>(values_of, data.size());
    std::vector<T> clipped(data.size());
    on.copy(how.stream, clipped.data(), data.data(), data.size_bytes());
    on.wait(how.stream, detail::deadline::after(std::chrono::minutes{5}));
    for (std::size_t i = 0; i < clipped.size(); ++i)
      expect(same_bits<T>(clipped[i], detail::narrowed<T>(detail::widened<float>(values[i]) * got[1])),
             detail::join({"element ", i, " is not clipped"}));
  }
  barrier(comm);
}

}  // namespace tutti::testing
