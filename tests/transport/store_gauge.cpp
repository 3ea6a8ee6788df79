// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When slots are written past the caches: copies of any speed, made by sleeping between begin and end.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <thread>

#include "tutti/transport/store_gauge.hpp"

using namespace tutti;
using namespace std::chrono_literals;

namespace {

// No bytes are copied, so their number is free: at 256 MiB, no pause of a busy machine makes a copy slow; at 1 MiB, a sleep
// of 300 us is slow (0.3 ns a byte) and one of 5 ms an interruption.
constexpr std::size_t fast = std::size_t{256} << 20, slow = std::size_t{1} << 20;

// Makes copies until one was timed, and returns how many there were and how many of them streamed.
struct tally {
  int copies = 0;
  int streamed = 0;
};
tally until_timed(store_gauge& gauge, std::size_t bytes, std::chrono::microseconds time) {
  for (tally out; ++out.copies < 1000;) {
    auto const trial = gauge.begin(bytes);
    if (trial.timed) std::this_thread::sleep_for(time);
    gauge.end(trial, bytes);
    out.streamed += trial.stream;
    if (trial.timed) return out;
  }
  return {};
}

void make_slow(store_gauge& gauge) {
  for (int i = 0; i < 1000 && !gauge.streams(slow); ++i) until_timed(gauge, slow, 300us);
  REQUIRE(gauge.streams(slow));
}

}  // namespace

TEST_CASE("copies that are fast go through the caches") {
  store_gauge gauge;
  for (int i = 0; i < 100; ++i) CHECK(until_timed(gauge, fast, 0us).streamed == 0);
  CHECK_FALSE(gauge.streams(fast));
}

TEST_CASE("copies that stay slow go past the caches, but for those that are timed") {
  store_gauge gauge;
  until_timed(gauge, slow, 300us);
  CHECK_FALSE(gauge.streams(slow));  // one proves nothing
  make_slow(gauge);
  until_timed(gauge, slow, 300us);
  tally const t = until_timed(gauge, slow, 300us);
  CHECK(t.copies > 8);  // a plain copy is dear there
  CHECK(t.streamed == t.copies - 1);
}

TEST_CASE("when plain copies are fast again, they go through the caches again") {
  store_gauge gauge;
  make_slow(gauge);
  for (int i = 0; i < 20; ++i) until_timed(gauge, fast, 0us);
  CHECK_FALSE(gauge.streams(fast));
}

TEST_CASE("a copy in which something else ran says nothing") {
  store_gauge gauge;
  for (int i = 0; i < 10; ++i) until_timed(gauge, slow, 5ms);
  CHECK_FALSE(gauge.streams(slow));
}

TEST_CASE("short copies are neither timed nor streamed") {
  store_gauge gauge;
  make_slow(gauge);
  for (int i = 0; i < 1000; ++i) {
    auto const trial = gauge.begin(1024);
    CHECK_FALSE(trial.timed);
    CHECK_FALSE(trial.stream);
  }
  CHECK_FALSE(gauge.streams(1024));
}
