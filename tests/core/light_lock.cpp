// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tutti/core/light_lock.hpp"

#include <atomic>
#include <cstddef>
#include <doctest/doctest.h>
#include <mutex>
#include <thread>
#include <vector>

namespace td = tutti::detail;

namespace {

constexpr std::size_t lock_threads = 4, lock_repeats = 500'000;

// Calls f() so often on each of so many threads, which begin together.
template <class F>
void on_lock_threads(F const& f) {
  std::atomic<std::size_t> arrived{0};
  std::vector<std::thread> all;
  for (std::size_t i = 0; i < lock_threads; ++i)
    all.emplace_back([&] {
      ++arrived;
      while (arrived < lock_threads) std::this_thread::yield();
      for (std::size_t k = 0; k < lock_repeats; ++k) f();
    });
  for (std::thread& t : all) t.join();
}

}  // namespace

TEST_CASE("light_lock: one thread at a time holds it, before and after the process has others") {
  td::light_lock lock;
  REQUIRE(lock.try_lock());
  CHECK_FALSE(lock.try_lock());
  std::thread([&] { CHECK_FALSE(lock.try_lock()); }).join();
  lock.unlock();

  std::size_t sum = 0;  // no atomic: two holders at once would lose some of it
  on_lock_threads([&] {
    std::lock_guard const held(lock);
    ++sum;
  });
  CHECK(sum == lock_threads * lock_repeats);
}

TEST_CASE("counters of a process keep their value when it gets more threads") {
  std::atomic<std::size_t> jobs{0};
  td::count_up(jobs, 3);
  on_lock_threads([&] {
    td::count_up(jobs, 2);
    td::count_down(jobs, 1);
  });
  CHECK(jobs.load() == 3 + lock_threads * lock_repeats);
}
