// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranges that a profiler shows around calls on virtual ranks; launches run on the CPU.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/device_stand_in.hpp"
#include "tutti/device/local/cuda_local.hpp"
#include "tutti/device/local/ragged.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

std::vector<std::string> shown;
int running = 0;
constexpr range_sink sink{
    [](char const* text, std::uint64_t bytes) noexcept -> std::uint64_t {
      shown.push_back(text + (", " + std::to_string(bytes)));
      return static_cast<std::uint64_t>(++running);
    },
    [](std::uint64_t range) noexcept { running -= range == static_cast<std::uint64_t>(running); }};

}  // namespace

TEST_CASE("a profiler that listens is shown each call on virtual ranks, and no other is") {
  device_stand_in const on;
  cuda_local const ranks(on, 2);
  std::vector<std::vector<float>> data(2, std::vector<float>(10, 1.0f)), all(2, std::vector<float>(20));
  all_reduce(ranks, data, data);
  CHECK(shown.empty());

  auto const* const before = tutti::detail::ranges.exchange(&sink);
  all_reduce(ranks, data, data);
  all_gather(ranks, data, all);
  std::vector<std::vector<float>> parts{std::vector<float>(12), std::vector<float>(8)};
  all_gather_v(ranks, parts, all, std::vector<std::size_t>{12, 8});
  tutti::detail::ranges.store(before);

  CHECK(running == 0);
  CHECK(shown == std::vector<std::string>{"all_reduce of 40 bytes among 2 virtual ranks, 40",
                                          "all_gather of 40 bytes among 2 virtual ranks, 40",
                                          "all_gather of 48 bytes among 2 virtual ranks, 48"});
}
