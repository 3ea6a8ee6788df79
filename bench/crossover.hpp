// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The size up to which one of two methods is the better one, from noisy times.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <string>
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

// A line of a tuning table; the name is one of include/tutti/tune/devices.hpp.
inline std::string limit_line(std::string_view name, std::size_t limit) {
  return "device " + std::string(name) + " " +
         (limit == std::numeric_limits<std::size_t>::max() ? "any" : std::to_string(limit));
}
inline void print_limit(std::string_view name, std::size_t limit) {
  std::printf("result: %s\n", limit_line(name, limit).c_str());
}

// Why no limit can be measured among these processes; empty if one can.
inline std::string why_no_limit(std::string_view name, int ranks, int gpus) {
  if (gpus >= ranks) return {};
  return "no limit `" + std::string(name) + "`: " + std::to_string(ranks) + " processes on " + std::to_string(gpus) +
         (gpus == 1 ? " GPU" : " GPUs") + " take turns, which would be most of the time";
}

}  // namespace tutti::bench
