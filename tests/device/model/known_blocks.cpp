// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The number of blocks is computed once for each kernel, device and number of threads.
// labels: threads
#include "tutti/device/model/known_blocks.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace tutti::detail;

TEST_CASE("blocks are computed once for each kernel, device and number of threads") {
  known_blocks known;
  std::array<char, 2> const kernels{};
  int computed = 0;
  for (int call = 0; call < 3; ++call)
    for (int kernel : {0, 1})
      for (int device : {0, 1})
        for (int threads : {64, 256}) {
          int const expected = kernel * 10'000 + device * 1000 + threads;
          int const found = known.find(&kernels[static_cast<std::size_t>(kernel)], device, threads, [&] {
            ++computed;
            return expected;
          });
          CHECK(found == expected);
        }
  CHECK(computed == 8);
}

TEST_CASE("threads may ask at the same time") {
  known_blocks known;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int device = 0; device < 100; ++device)
        wrong += known.find(nullptr, device, 256, [&] { return device + 1; }) != device + 1;
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

// As where a kernel is loaded only once another thread has launched one on another device.
TEST_CASE("while blocks are computed for one device, other threads learn those of another") {
  known_blocks known;
  std::atomic<bool> computes{false}, asked{false};
  std::thread other([&] {
    known.find(nullptr, 0, 256, [&] {
      computes = true;
      while (!asked) std::this_thread::yield();
      return 1;
    });
  });
  while (!computes) std::this_thread::yield();
  int const found = known.find(nullptr, 1, 256, [] { return 2; });
  asked = true;
  other.join();
  CHECK(found == 2);
}

TEST_CASE("blocks that could not be computed are computed by the next call") {
  known_blocks known;
  CHECK_THROWS_AS(known.find(nullptr, 0, 256, [&]() -> int { throw std::runtime_error("no device"); }),
                  std::runtime_error);
  CHECK(known.find(nullptr, 0, 256, [] { return 7; }) == 7);
  CHECK(known.find(nullptr, 0, 256, [] { return 8; }) == 7);
}
