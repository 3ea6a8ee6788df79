// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The size up to which one of two methods is the better one, from noisy times.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <string_view>
#include <vector>

namespace tutti::bench {

struct two_times {
  std::size_t bytes;
  double small, large;  // of the method for small messages, and of the other
};

// Using the first method up to this size and the other beyond it minimises the product of the slowdowns against the better method at each
// size. 0: never use the first; the largest number: always use it.
inline std::size_t best_limit(std::vector<two_times> const& all) {
  double cost = 0, least = 0;
  std::size_t limit = 0, last = 0;
  for (two_times const& t : all) {
    cost += std::log(t.small) - std::log(t.large);
    if (cost < least) least = cost, limit = t.bytes;
    last = t.bytes;
  }
  return limit == last && limit > 0 ? std::numeric_limits<std::size_t>::max() : limit;
}

// A line of a tuning table; see include/tutti/tune/devices.hpp.
inline void print_limit(std::string_view name, std::size_t limit) {
  std::printf("result: device %.*s ", static_cast<int>(name.size()), name.data());
  if (limit == std::numeric_limits<std::size_t>::max()) std::printf("any\n");
  else std::printf("%zu\n", limit);
}

}  // namespace tutti::bench
