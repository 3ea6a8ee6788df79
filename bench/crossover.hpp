// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Up to which size one of two ways is the better one, from times that scatter.
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
  double small, large;  // of the way that is for small messages, and of the other
};

// Up to that size the first way, and from there on the other, cost the least factor over the better of both at each size. 0
// where the first is for none, the highest number where it is for all.
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

// As a line of a tuning table; see include/tutti/tune/devices.hpp.
inline void print_limit(std::string_view name, std::size_t limit) {
  std::printf("result: device %.*s ", static_cast<int>(name.size()), name.data());
  if (limit == std::numeric_limits<std::size_t>::max()) std::printf("any\n");
  else std::printf("%zu\n", limit);
}

}  // namespace tutti::bench
