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

// The first case, because the C library may never again say that the process has one thread.
TEST_CASE("counters of a process keep their value when it gets more threads") {
  std::atomic<std::size_t> jobs{0};
  td::increase(jobs, 5);
  td::decrease(jobs, 2);
  on_lock_threads([&] {
    td::increase(jobs, 2);
    td::decrease(jobs, 1);
  });
  CHECK(jobs.load() == 3 + lock_threads * lock_repeats);
}

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

TEST_CASE("light_lock: of two threads that try at the same moment, one holds it") {
  constexpr int lock_rounds = 20'000;
  td::light_lock lock;
  std::atomic<int> arrived{0}, holders{0};
  int wrong = 0;
  auto const try_often = [&](bool counts) {
    int expected = 0;
    auto const meet = [&] {
      expected += 2;
      ++arrived;
      for (int looks = 0; arrived < expected; ++looks)
        if (looks > 1000) std::this_thread::yield();
    };
    for (int round = 0; round < lock_rounds; ++round) {
      meet();
      bool const got = lock.try_lock();
      if (got) ++holders;
      meet();
      if (got) lock.unlock();
      if (counts && holders.exchange(0) != 1) ++wrong;
    }
  };
  std::thread other([&] { try_often(false); });
  try_often(true);
  other.join();
  CHECK(wrong == 0);
}
