// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce of many arrays: the results of a call for each, for all sizes of buckets, in few calls.
// labels: processes
#include <doctest/doctest.h>

#include <cstddef>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

std::vector<std::vector<long>> arrays_of(int rank) {
  std::vector<std::vector<long>> out;
  for (std::size_t const count : {3u, 0u, 1u, 500u, 40u, 40u, 70000u, 8u, 0u, 0u, 1000u, 4099u, 1u}) {
    auto& array = out.emplace_back(count);
    for (std::size_t k = 0; k < count; ++k) array[k] = static_cast<long>(k * 3 + out.size()) + rank;
  }
  return out;
}

template <class Comm>
void check_lists_of_arrays(Comm& comm) {
  auto wanted = arrays_of(comm.rank());
  for (auto& array : wanted) all_reduce(comm, array);
  for (std::size_t const bytes : {0u, 1u, 64u, 5000u, 1u << 16, 1u << 20, 1u << 26}) {
    auto list = arrays_of(comm.rank());
    all_reduce(comm, list, sum{}, {}, {.bucket_bytes = bytes});
    expect(list == wanted, "buckets of " + std::to_string(bytes) + " bytes give another sum");
  }
  auto owners = arrays_of(comm.rank());
  std::vector<std::span<long>> spans(owners.begin(), owners.end());
  all_reduce(comm, spans);
  expect(owners == wanted, "spans give another sum");
  owners = arrays_of(comm.rank());
  all_reduce(comm, owners | std::views::transform([](auto& array) { return std::span(array); }));
  expect(owners == wanted, "a view of spans gives another sum");
  std::vector<std::vector<long>> nothing;
  all_reduce(comm, nothing);

  std::vector<std::vector<float>> many(100, std::vector<float>(10, 1));
  all_reduce(comm, many, tutti::mean{});
  expect(many[99][9] == 1, "a mean is wrong");
}

}  // namespace

TEST_CASE("many arrays in few calls are summed as each alone") {
  for (int const ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_lists_of_arrays(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_lists_of_arrays(comm); }));
  }
}

TEST_CASE("lists that differ are a mismatch of a bucket's count") {
  CHECK_NOTHROW(run_threads(2, [](auto& comm) {
    std::vector<std::vector<float>> list(10, std::vector<float>(10, 1));
    if (comm.rank() == 1) list.emplace_back(5);
    expect_error(error_of([&] { all_reduce(comm, list); }), error_code::mismatch, "ranks disagree in call #1: ");
  }));
}
