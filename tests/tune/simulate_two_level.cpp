// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Clocks of collectives in two levels: exact where the answer is known, and in proportion for uneven nodes and shared links.
#include "tutti/tune/simulate_two_level.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::analyze;

namespace {

node_map nodes_with(std::vector<int> const& sizes) {
  std::vector<int> out;
  for (std::size_t node = 0; node < sizes.size(); ++node)
    out.insert(out.end(), static_cast<std::size_t>(sizes[node]), static_cast<int>(node));
  return node_map(out);
}

double seconds_of(collective what, std::vector<int> const& sizes, double bytes, model const& m) {
  int ranks = 0;
  for (int const each : sizes) ranks += each;
  double out = 0;
  for (part_time const& p : simulate_two_level(what, nodes_with(sizes), ranks, {bytes}, m)) out += p.seconds;
  return out;
}

}  // namespace

TEST_CASE("parts take their time one after the other, each by its fastest algorithm") {
  model const latency{.alpha = 10, .beta = 0, .gamma = 0, .enclosures = {{.ranks = 4, .alpha = 1}}};
  // A message from each to one, between nodes, and from one to each.
  CHECK(seconds_of(collective::all_reduce, {4, 4}, 8, latency) == doctest::Approx(1 + 10 + 1));
  CHECK(seconds_of(collective::broadcast, {4, 4, 4}, 8, latency) == doctest::Approx(10 + 1));
  auto const parts = simulate_two_level(collective::all_reduce, nodes_with({4, 4}), 8, {1 << 20}, latency);
  REQUIRE(parts.size() == 3);
  CHECK(parts[0].part.what == collective::reduce_scatter);
  CHECK(parts[1].ranks == 2);
  CHECK(parts[2].algorithm != algorithm_id::automatic);
}

TEST_CASE("uneven nodes take as long as the largest, and a detour where the root is elsewhere") {
  model const m{
      .alpha = 1e-6, .beta = 1e-9, .gamma = 1e-10, .enclosures = {{.ranks = 8, .alpha = 1e-7, .beta = 1e-10}}};
  for (collective const c : every_collective) {
    INFO(name(c));
    if (c == collective::barrier || c == collective::all_to_all) continue;
    CHECK(seconds_of(c, {8, 8, 8, 8}, 1 << 20, m) < seconds_of(c, {26, 2, 2, 2}, 1 << 20, m));
  }
}

TEST_CASE("a link that the ranks of a node share slows what crosses nodes, and nothing else") {
  auto const time = [](double uplink, std::vector<int> const& sizes) {
    model const m{.alpha = 0, .beta = 8, .gamma = 0, .enclosures = {{.ranks = 4, .beta = 1, .uplink = uplink}}};
    return seconds_of(collective::all_reduce, sizes, 64 << 10, m);
  };
  CHECK(time(2, {4, 4}) == doctest::Approx(time(0, {4, 4})));  // four links like those of the ranks
  CHECK(time(8, {4, 4}) > 2 * time(2, {4, 4}));
  CHECK(time(8, {4}) == doctest::Approx(time(0, {4})));
}
