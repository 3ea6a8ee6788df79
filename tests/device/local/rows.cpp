// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Epilogues on rows among virtual ranks; launches run on the CPU.
// labels: threads
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "support/device_stand_in.hpp"
#include "support/expect.hpp"
#include "support/local_rows.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/device/local/cuda_local.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

struct as_it_is {
  using total = float;
  float of(float) const { return 0; }
  float combine(float, float) const { return 0; }
  float row(float, std::size_t) const { return 0; }
  float finish(float x, float) const { return x; }
};

}  // namespace

TEST_CASE_TEMPLATE("rows of virtual ranks are normalised", T, float, half, bfloat16) {
  for (int const p : {1, 2, 5, 13})
    for (std::size_t const length : {1u, 15u, 64u, 101u}) {
      CAPTURE(p);
      CAPTURE(length);
      CHECK(wrong_rows_of<T>(device_stand_in{}, p, 7, length) == "");
    }
  CHECK(wrong_rows_of<T>(device_stand_in{.members = 3, .at_once = 2}, 2, 3, length_of_long_row<T>) == "");
}

TEST_CASE("the total of a row can be any type") {
  std::size_t const length = 50;
  device_stand_in const on;
  auto const in =
      to_device(on, ranks_values<float>{row_values<float>(0, 3 * length), row_values<float>(1, 3 * length)});
  auto const out = to_device(on, ranks_values<float>{std::vector<float>(3 * length), std::vector<float>(3 * length)});
  all_reduce(cuda_local(on, 2), in, out, by_rows(sum{}, length, softmax{}));
  auto const got = to_host(on, out);
  for (std::size_t row = 0; row < 3; ++row) {
    double all = 0;
    for (std::size_t i = 0; i < length; ++i) all += double{got[1][row * length + i]};
    CHECK(all == doctest::Approx(1).epsilon(1e-5));
  }
}

TEST_CASE("the scale of a row is that of its finite elements, and others become the largest number or stay NaN") {
  float const infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> const row{1, -2, infinity, 0.5f, -infinity, nan, 0}, infinite(row.size(), infinity);
  std::vector<float> both = row;
  both.insert(both.end(), infinite.begin(), infinite.end());
  device_stand_in const on;
  auto const in = to_device(on, ranks_values<float>{both, std::vector<float>(both.size())});
  auto const out = to_device(on, ranks_values<float8_e4m3>(2, std::vector<float8_e4m3>(both.size())));
  auto const scales = to_device(on, ranks_values<float>{std::vector<float>(2)});
  all_reduce(cuda_local(on, 2), in, out, by_rows(sum{}, row.size(), with_row_scales(as_it_is{}, scales[0].data())));
  auto const got = to_host(on, out)[1];
  CHECK(to_host(on, scales)[0] == std::vector<float>{2.0f / 448, 1.0f / (448 * 512)});
  std::vector<float> const expected{224, -448, 448, 112, -448, nan, 0};
  for (std::size_t i = 0; i < row.size(); ++i) {
    CAPTURE(i);
    CHECK((float{got[i]} == expected[i] || (std::isnan(float{got[i]}) && std::isnan(expected[i]))));
    CHECK(float{got[row.size() + i]} == 448);
  }
}

TEST_CASE("a message has whole rows") {
  device_stand_in const on;
  auto const data = to_device(on, ranks_values<float>{std::vector<float>(10), std::vector<float>(10)});
  for (std::size_t const length : {0u, 3u}) {
    error const e = error_of([&] {
      all_reduce(cuda_local(on, 2), data, by_rows(sum{}, length, softmax{}));
      return 0;
    });
    CHECK(e.code() == error_code::bad_argument);
    CHECK(std::string(e.what()).find("has no whole rows") != std::string::npos);
  }
}
