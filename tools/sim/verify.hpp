// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti-sim verify: proves schedules correct.
#pragma once

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "schedules.hpp"
#include "tutti/analyze/verify.hpp"
#include "two_level.hpp"

namespace simulator {

using namespace tutti::analyze;

struct verify_arguments {
  std::vector<std::string> algorithms{"all"};
  std::string what = "all";
  std::string ranks = "1-32";
  std::vector<int> nodes{};
  int slices = 3, credits = 2;
  bool in_place = false, direct = false;
};

inline void verify_options(CLI::App& to, verify_arguments& a) {
  to.add_option("algorithm", a.algorithms, "algorithms, or all")->capture_default_str();
  to.add_option("-c,--collective", a.what, "the collective, or all")->capture_default_str();
  auto* const ranks = to.add_option("-r,--ranks", a.ranks, "number of ranks, or a range")->capture_default_str();
  to.add_option("--nodes", a.nodes, "for two_level: the ranks on each node, such as 4,4,3, instead of numbers of ranks")
      ->delimiter(',')
      ->excludes(ranks);
  to.add_option("--slices", a.slices, "slices per chunk")->capture_default_str();
  to.add_option("--credits", a.credits, "slices in flight per channel")->capture_default_str();
  to.add_flag("--in-place", a.in_place, "use the same memory for input and output");
  to.add_flag("--direct", a.direct, "let peers read each other's memory");
}

inline std::pair<int, int> range_of(std::string const& text) {
  try {
    std::size_t used = 0;
    int const first = std::stoi(text, &used);
    if (used == text.size()) return {first, first};
    if (text[used] == '-') {
      std::string const rest = text.substr(used + 1);
      if (int const last = std::stoi(rest, &used); used == rest.size() && first <= last) return {first, last};
    }
  } catch (std::exception const&) {
    // reported below
  }
  refuse(fmt::format("\"{}\" is not a range of ranks", text), "write a number such as 8, or a range such as 1-64");
}

// Returns the exit code: 1 if a schedule is wrong, or if there was nothing to prove.
inline int verify_command(verify_arguments a) {
  auto const [first, last] = range_of(a.ranks);
  check_ranks(first, 0);
  if (names_two_level(a.algorithms) && a.nodes.empty() && last < 2)
    refuse("two_level needs at least 2 ranks", "give more");
  bool const composite = take_two_level(a.algorithms);
  if (last > max_verified_ranks)
    refuse(fmt::format("cannot verify {} ranks", last),
           fmt::format("give at most {}, which takes minutes; `tutti-sim simulate` takes up to {}", max_verified_ranks,
                       max_simulated_ranks));
  for (int const each : {a.slices, a.credits})
    if (each < 1 || each > 64) refuse(fmt::format("cannot verify {} slices or credits", each), "give 1 to 64");
  int on_nodes = 0;
  for (int const each : a.nodes) {
    if (each < 1 || each > max_verified_ranks - on_nodes)
      refuse(fmt::format("the nodes have less than 1 or more than {} ranks", max_verified_ranks),
             "give 1 or more for each");
    on_nodes += each;
  }
  bool const names_others = std::ranges::any_of(a.algorithms, [](std::string const& name) { return name != "all"; });
  if (!a.nodes.empty() && names_others) refuse("--nodes is for two_level", "name that algorithm alone");
  if (a.what != "all") collective_named(a.what);
  bool fine = !composite || verify_two_levels(a.what, first, last, a.nodes, a.in_place);
  if (a.algorithms.empty() || !a.nodes.empty()) return fine ? 0 : 1;
  for (served const& x : chosen(a.algorithms, a.what)) {
    int cases = 0;
    std::string why;
    for (int p = first; p <= last && why.empty(); ++p)
      for (int root = 0; root < (rooted(x.what) ? p : 1) && why.empty(); root += std::max(1, p / 8))
        for (int ordered = 0; ordered <= (reduces(x.what) && !x.schedule.needs_commutative ? 1 : 0) && why.empty();
             ++ordered) {
          verdict const v =
              verify(x.schedule, x.what, {p, root, ordered == 1},
                     {.in_place = a.in_place, .direct = a.direct, .slices = a.slices, .credits = a.credits});
          ++cases;
          if (!v.ok) why = fmt::format("{} ranks, root {}{}: {}", p, root, ordered ? ", ordered" : "", v.why);
        }
    fine = fine && why.empty();
    fmt::print("{:<7} {:<18} {:<14} {}\n", why.empty() ? "correct" : "WRONG", name(x.id), name(x.what),
               why.empty() ? fmt::format("{} {}", cases, cases == 1 ? "case" : "cases") : why);
  }
  return fine ? 0 : 1;
}

}  // namespace simulator
