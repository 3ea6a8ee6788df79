// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A thread that looks from time to time ends when its owner does, without waiting for the next look.
// labels: threads
#include "tutti/core/stoppable_thread.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using namespace tutti::detail;
using namespace std::chrono_literals;

TEST_CASE("it looks until it is ended, and can be started again") {
  std::atomic<int> looks = 0;
  stoppable_thread watch;
  CHECK(!watch.runs());
  for (int turn = 0; turn < 2; ++turn) {
    looks = 0;
    watch.start([&] {
      while (watch.rest(1ms)) ++looks;
    });
    CHECK(watch.runs());
    while (looks < 3) std::this_thread::yield();
    watch.end();
    CHECK(!watch.runs());
  }
}

TEST_CASE("its destructor ends it in the middle of a rest") {
  std::atomic<bool> rested = false;
  {
    stoppable_thread watch;
    watch.start([&] { rested = watch.rest(24h); });
  }
  CHECK(!rested);
}

TEST_CASE("joined threads have ended with their list") {
  std::atomic<int> done = 0;
  {
    std::vector<joined_thread> all;
    for (int i = 0; i < 4; ++i) all.emplace_back([&] { ++done; });
  }
  CHECK(done == 4);
}
