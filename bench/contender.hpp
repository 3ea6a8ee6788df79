// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A prepared call that a team measures.
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

// A call and its memory.
struct contender {
  std::string runs;  // the library's account of what it will run; may be empty
  std::function<void()> call;
  std::function<void()> write_inputs = [] {};
  std::function<void(int)> rewrite = [](int) {};
  std::function<bool()> right = [] { return true; };
  std::function<void()> start{}, test{}, wait{};  // the parts of call(), if it is non-blocking
};

// A fixed chain of multiplications.
inline void spin() {
  std::uint64_t word = 1;
  for (int i = 0; i < 3000; ++i) {
    word = word * 0x9e3779b97f4a7c15u + 1;
    asm volatile("" : "+r"(word));
  }
}
// Its time in nanoseconds, which is longer if the core is slow or shared. The median of several tries, because one may include a
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
