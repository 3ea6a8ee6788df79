// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads that need the same object at the same time create it once.
#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tutti/core/made_once.hpp"

namespace {

struct counted {
  explicit counted(std::atomic<int>& n) : number(++n), living(n) {}
  ~counted() { --living; }
  int number;
  std::atomic<int>& living;
};

}  // namespace

TEST_CASE("an object is created once, by the first thread that needs it") {
  std::atomic<int> made = 0;
  tutti::detail::made_once<counted> one;
  CHECK(one.get() == nullptr);
  auto const make = [&] { return std::make_unique<counted>(made); };
  std::vector<int> got(4);
  {
    std::vector<std::jthread> threads;
    for (int& g : got) threads.emplace_back([&] { g = one.get_or(make).number; });
  }
  CHECK(got == std::vector<int>(4, 1));
  CHECK(one.get() == &one.get_or(make));
  one.reset();
  CHECK(one.get() == nullptr);
  CHECK(made == 0);
  CHECK(one.get_or(make).number == 1);
}
