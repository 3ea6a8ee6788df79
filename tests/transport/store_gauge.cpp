// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When slots are written past the caches, decided from given durations of copies.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>

#include "support/mesh.hpp"
#include "tutti/transport/store_gauge.hpp"

using namespace tutti;
using namespace tutti::detail;
using testing::mesh_as;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t size = std::size_t{1} << 20;
// 0.03, 0.3 and 5 ns per byte.
constexpr std::chrono::microseconds fast = 30us, slow = 300us, interrupted = 5ms;

// Makes copies until one is timed, and returns how many there were and how many of them streamed.
struct tally {
  int copies = 0;
  int streamed = 0;
};
tally until_timed(store_gauge& gauge, std::chrono::microseconds time) {
  for (tally out; ++out.copies < 1000;) {
    auto const trial = gauge.begin(size);
    if (trial.timed) gauge.took(time, size);
    out.streamed += trial.stream;
    if (trial.timed) return out;
  }
  return {};
}

void make_slow(store_gauge& gauge) {
  for (int i = 0; i < 1000 && !gauge.streams(size); ++i) until_timed(gauge, slow);
  REQUIRE(gauge.streams(size));
}

}  // namespace

TEST_CASE("fast copies go through the caches") {
  mesh_as const elsewhere(false);
  store_gauge gauge;
  for (int i = 0; i < 100; ++i) CHECK(until_timed(gauge, fast).streamed == 0);
  CHECK_FALSE(gauge.streams(size));
}

TEST_CASE("copies that stay slow bypass the caches, except those that are timed") {
  mesh_as const elsewhere(false);
  store_gauge gauge;
  until_timed(gauge, slow);
  CHECK_FALSE(gauge.streams(size));  // one proves nothing
  make_slow(gauge);
  until_timed(gauge, slow);
  tally const t = until_timed(gauge, slow);
  CHECK(t.copies > 8);  // a plain copy is dear there
  CHECK(t.streamed == t.copies - 1);
}

TEST_CASE("copies go through the caches again when plain copies are fast again") {
  mesh_as const elsewhere(false);
  store_gauge gauge;
  make_slow(gauge);
  for (int i = 0; i < 20; ++i) until_timed(gauge, fast);
  CHECK_FALSE(gauge.streams(size));
}

TEST_CASE("a copy that was interrupted is not counted") {
  mesh_as const elsewhere(false);
  store_gauge gauge;
  for (int i = 0; i < 10; ++i) until_timed(gauge, interrupted);
  CHECK_FALSE(gauge.streams(size));
}

TEST_CASE("short copies are neither timed nor streamed") {
  mesh_as const elsewhere(false);
  store_gauge gauge;
  make_slow(gauge);
  for (int i = 0; i < 1000; ++i) {
    auto const trial = gauge.begin(1024);
    CHECK_FALSE(trial.timed);
    CHECK_FALSE(trial.stream);
  }
  CHECK_FALSE(gauge.streams(1024));
}

TEST_CASE("shorter copies that follow each other are seldom timed, and stream where longer ones do") {
  mesh_as const elsewhere(false);
  constexpr std::size_t shorter = store_gauge::min_bytes_in_a_row;
  store_gauge gauge;
  auto const copy_many = [&](std::chrono::nanoseconds time) {
    tally out;
    for (; out.copies < 40'000; ++out.copies) {
      if (gauge.is_plain_in_a_row()) continue;
      auto const trial = gauge.begin_in_a_row(shorter);
      if (trial.timed) gauge.took(time, shorter);
      out.streamed += trial.stream;
    }
    return out;
  };
  CHECK(copy_many(100ns).streamed == 0);
  CHECK(copy_many(1us).streamed > 32'000);
  CHECK(gauge.streams_in_a_row(shorter));
  CHECK_FALSE(gauge.streams(shorter));
  CHECK(gauge.streams(size));
  CHECK(copy_many(100ns).streamed < 12'000);
}

TEST_CASE("on a mesh no copy is timed or streamed") {
  mesh_as const there(true);
  store_gauge gauge;
  for (int i = 0; i < 10'000; ++i) {
    REQUIRE_FALSE(gauge.begin(size).timed);
    REQUIRE(gauge.is_plain_in_a_row());
    REQUIRE_FALSE(gauge.begin_in_a_row(size).timed);
    REQUIRE_FALSE(gauge.begin_in_a_row(store_gauge::min_bytes_in_a_row).timed);
  }
  CHECK_FALSE(gauge.streams(size));
  CHECK_FALSE(gauge.streams_in_a_row(size));
}
