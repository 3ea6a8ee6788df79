// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a team measures: a call that is ready to be timed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include <nlohmann/json.hpp>

#include "start_line.hpp"

namespace bench {

using json = nlohmann::json;

// With its memory.
struct contender {
  std::string runs;  // what the library says that it will do; may be empty
  std::function<void()> call;
  std::function<void()> write_inputs = [] {};
  std::function<void(int)> rewrite = [](int) {};
  std::function<bool()> right = [] { return true; };
  std::function<void()> start{}, test{}, wait{};  // what call() is made of, where it is started
};

// A fixed chain of multiplications.
inline void spin() {
  std::uint64_t word = 1;
  for (int i = 0; i < 3000; ++i) {
    word = word * 0x9e3779b97f4a7c15u + 1;
    asm volatile("" : "+r"(word));
  }
}
// Its nanoseconds: longer when the core is slower or somebody else has it. The median of some tries, for one may meet a
// wake-up.
inline double spin_time() {
  std::array<double, 5> tries{};
  for (double& nanoseconds : tries) {
    std::int64_t const begin = now();
    spin();
    nanoseconds = static_cast<double>(now() - begin);
  }
  std::ranges::sort(tries);
  return tries[tries.size() / 2];
}

}  // namespace bench
