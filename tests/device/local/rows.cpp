// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Epilogues on rows among virtual ranks; launches run on the CPU.
// labels: threads
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "support/device_stand_in.hpp"
#include "support/expect.hpp"
#include "support/local_rows.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/device/local/cuda_local.hpp"

using namespace tutti;
using namespace tutti::testing;

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
