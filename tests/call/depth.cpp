// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many functions lie between a user's call and the loop over its elements. include/tutti/README.md lists them.
// labels: wide
#include <doctest/doctest.h>

#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "tutti/tutti.hpp"

using namespace tutti;

namespace {

int functions_on_the_stack() {
  std::array<void*, 200> addresses;
  return backtrace(addresses.data(), static_cast<int>(addresses.size()));
}

struct measuring_sum {
  static constexpr bool commutative = true;
  static thread_local int least, sums;

  float operator()(float a, float b) const {
    if (++sums % 17 == 0) least = std::min(least, functions_on_the_stack());  // a trace takes microseconds
    return a + b;
  }
};
thread_local int measuring_sum::least, measuring_sum::sums;

}  // namespace

TEST_CASE("an all_reduce passes at most 12 to 15 functions on its way to the loop, by how it travels") {
  struct trial {
    std::size_t count;
    protocol how;
    int most;
  };
  for (auto const& [count, how, most] :
       {trial{4, protocol::packet, 12}, {2000, protocol::staged, 14}, {20'000, protocol::automatic, 15}})
    run_threads(2, [=](communicator<loopback>& comm) {
      std::vector<float> values(count, 1.0f);
      measuring_sum::least = 1000;
      for (int i = 0; i < 100; ++i)  // one that naps passes some more
        all_reduce(comm, values, measuring_sum{}, {.algorithm = algorithm_id::one_shot, .protocol = how});
      int const between = measuring_sum::least - functions_on_the_stack() - 1;
      CAPTURE(count);
      CHECK(between >= 1);
      CHECK(between <= most);
      MESSAGE(count, " elements: ", between, " functions");
    });
}
