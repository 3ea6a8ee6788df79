// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti-sim list, and the schedules that a command line names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "refuse.hpp"
#include "tutti/algorithm/registry.hpp"

namespace simulator {

using namespace tutti;
using namespace tutti::detail;

struct served {
  algorithm_id id;
  collective what;
  dynamic_schedule schedule;
};

inline collective collective_named(std::string const& wanted) {
  std::string all;
  for (collective const c : every_collective) {
    if (name(c) == wanted) return c;
    all += fmt::format("{}{}", all.empty() ? "" : ", ", name(c));
  }
  refuse(fmt::format("\"{}\" is not a collective", wanted), "the collectives are: " + all);
}

// The schedules of the wanted algorithms ("all" for all of them) for the wanted collectives.
inline std::vector<served> chosen(std::vector<std::string> const& wanted_algorithms,
                                  std::string const& wanted_collective) {
  for (std::string const& n : wanted_algorithms)
    if (n != "all" && find_algorithm(n) == algorithm_id::automatic)
      refuse(fmt::format("\"{}\" is not an algorithm", n),
             fmt::format("the algorithms are: {}; `all` stands for all of them", fmt::join(algorithms::names, ", ")));
  bool const any = wanted_collective == "all";
  collective const only = any ? collective{} : collective_named(wanted_collective);
  std::vector<served> out;
  for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule s) {
    bool const wanted = std::any_of(wanted_algorithms.begin(), wanted_algorithms.end(),
                                    [&](std::string const& n) { return n == "all" || n == name(id); });
    if (wanted && (any || c == only)) out.push_back({id, c, s});
  });
  if (out.empty() && wanted_algorithms == std::vector{std::string(name(algorithm_id::two_level))})
    refuse("two_level is no schedule, but a sequence of collectives",
           "`tutti-sim simulate` gives their times, and `tutti-sim verify` proves them");
  if (out.empty())
    refuse(fmt::format("{} does not implement {}", fmt::join(wanted_algorithms, ", "), wanted_collective),
           "`tutti-sim list` prints which algorithm implements which collective");
  return out;
}

inline constexpr int max_simulated_ranks = 1'000'000, max_ranks_on_nodes = 100'000, max_verified_ranks = 512;

inline void check_ranks(int ranks, int root) {
  if (ranks < 1 || ranks > max_simulated_ranks)
    refuse(fmt::format("the number of ranks is {}", ranks), fmt::format("give 1 to {}", max_simulated_ranks));
  if (root < 0 || root >= ranks)
    refuse(fmt::format("{} is not a rank of {}, so it cannot be the root", root, ranks),
           fmt::format("give a rank from 0 to {}", ranks - 1));
}

inline bool names_two_level(std::vector<std::string> const& wanted) {
  return std::ranges::find(wanted, name(algorithm_id::two_level)) != wanted.end();
}
// Takes two_level, which is no schedule, out of the wanted algorithms; returns whether it was there, or all are wanted.
inline bool take_two_level(std::vector<std::string>& wanted) {
  bool const named = std::erase(wanted, name(algorithm_id::two_level)) > 0;
  return named || std::ranges::find(wanted, "all") != wanted.end();
}

inline void list_command() {
  std::size_t wide = 0;
  for (std::string_view const n : algorithms::names) wide = std::max(wide, n.size());
  for (std::size_t i = 1; i <= algorithms::size; ++i) {
    auto const id = static_cast<algorithm_id>(i);
    std::string line;
    for (collective const c : every_collective)
      if (auto const s = find_schedule(id, c))
        line += fmt::format("{}{}{}", line.empty() ? "" : " ", name(c), s.needs_commutative ? "*" : "");
    fmt::print("{:<{}}  {}\n", name(id), wide, line);
  }
  fmt::print("{:<{}}  all of these, inside nodes and then across them\n", name(algorithm_id::two_level), wide);
  fmt::print("\n* commutative operations only\n");
}

}  // namespace simulator
