// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective in two levels is proved, on even, uneven and scattered nodes, and what two levels refuse is shown to be wrong.
#include "tutti/analyze/verify_two_level.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tutti/algorithm/two_level_rank.hpp"
#include "tutti/tune/table.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::analyze;

namespace {

struct nodes_under_test {
  char const* name;
  std::vector<int> node_of;
};

std::vector<int> nodes_of_sizes(std::vector<int> const& sizes) {
  std::vector<int> out;
  for (std::size_t node = 0; node < sizes.size(); ++node)
    out.insert(out.end(), static_cast<std::size_t>(sizes[node]), static_cast<int>(node));
  return out;
}

std::vector<nodes_under_test> all_nodes() {
  return {{"one node", nodes_of_sizes({5})},
          {"a node each", nodes_of_sizes({1, 1, 1, 1})},
          {"pairs", nodes_of_sizes({2, 2, 2})},
          {"fours", nodes_of_sizes({4, 4, 4, 4})},
          {"many", nodes_of_sizes({3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3})},
          {"uneven", nodes_of_sizes({1, 3, 4})},
          {"a large node first", nodes_of_sizes({5, 1, 2})},
          {"one and the others", nodes_of_sizes({1, 7})},
          {"scattered", {0, 1, 0, 1, 0, 1}},
          {"scattered in threes", {0, 1, 2, 2, 0, 1, 1, 2, 0}},
          {"scattered and uneven", {0, 0, 1, 0, 0, 1, 0, 2}}};
}

// Why two levels refuse a call; empty if they do not.
std::string_view refusal(collective c, node_map const& nodes, bool commutative, bool ragged) {
  return objection(algorithm_id::two_level,
                   {.what = c,
                    .commutative = commutative,
                    .ragged = ragged,
                    .nodes = nodes.consecutive() ? node_order::consecutive : node_order::scattered});
}

template <class F>
void for_each_case(F&& f) {
  for (nodes_under_test const& n : all_nodes()) {
    node_map const nodes(n.node_of);
    int const ranks = static_cast<int>(n.node_of.size());
    for (collective const c : every_collective)
      for (int root = 0; root < (rooted(c) ? ranks : 1); ++root)
        for (bool const ordered : {false, true})
          for (bool const in_place : {false, true})
            for (bool const uneven : {false, true})
              for (bool const large : {false, true}) {
                if ((ordered && !reduces(c)) || (uneven && !by_block(c))) continue;
                INFO(n.name, ", ", name(c), ", root ", root, ordered ? ", ordered" : "", in_place ? ", in place" : "",
                     uneven ? ", uneven blocks" : "", large ? ", large" : "");
                f(c, nodes, shape{ranks, root, ordered}, two_level_circumstances{in_place, uneven, large});
              }
  }
}

// The elements of scratch memory that a rank takes for a scan of ten elements.
template <collective C>
std::vector<std::size_t> scratch_of_scan(std::vector<int> const& node_of) {
  node_map const nodes(node_of);
  int const ranks = static_cast<int>(node_of.size());
  std::vector<std::size_t> out(node_of.size());
  std::vector<int> input(10), output(10), room(100);
  struct no_blocks {
    extent at(int, int) const { return {}; }
  };
  for (int r = 0; r < ranks; ++r) {
    two_level_rank<C, int, false, no_blocks> here(nodes, r, ranks, 0);
    here.locate(input.data(), output.data(), 10, {}, false, [&](std::size_t n) {
      out[static_cast<std::size_t>(r)] += n;
      return room.data();
    });
  }
  return out;
}

}  // namespace

TEST_CASE("two levels do what the collective promises, wherever they do not refuse it") {
  int proved = 0;
  for_each_case([&](collective c, node_map const& nodes, shape s, two_level_circumstances how) {
    if (!refusal(c, nodes, !s.ordered, how.uneven).empty()) return;
    verdict const v = verify_two_level(c, nodes, s, how);
    CHECK_MESSAGE(v.ok, v.why);
    ++proved;
  });
  CHECK(proved > 1000);
}

TEST_CASE("what two levels refuse, they could not do") {
  int refused = 0;
  for_each_case([&](collective c, node_map const& nodes, shape s, two_level_circumstances how) {
    if (refusal(c, nodes, !s.ordered, how.uneven).empty()) return;
    // The first of a node's ranks may be alone there, so that a wrong order cannot show at a small number of ranks.
    if (!s.ordered && is_prefix(c)) return;
    verdict const v = verify_two_level(c, nodes, s, how);
    CHECK_FALSE(v.ok);
    CHECK(v.why != "");
    ++refused;
  });
  CHECK(refused > 100);
}

TEST_CASE("a flaw tells what is wrong") {
  node_map const scattered({0, 1, 0, 1});
  verdict const order = verify_two_level(collective::all_reduce, scattered, {.ranks = 4, .ordered = true});
  CHECK(order.why ==
        "rank 0, lane 0: output chunk 0 (element 0) is combined as ((0 2) (1 3)), which is not rank order");
  verdict const gathered = verify_two_level(collective::all_gather, scattered, {.ranks = 4});
  CHECK(gathered.why ==
        "rank 0, lane 0: output chunk 1 (element 0) holds chunk 2 (element 0) of rank 2 where chunk 1 (element 0) of "
        "rank 1 belongs");
}

TEST_CASE("ranks of a scan in two levels hold what earlier nodes make, and no more, but for those that need it") {
  std::vector<int> const twos{0, 0, 0, 1, 1, 1};
  CHECK(scratch_of_scan<collective::scan>(twos) == std::vector<std::size_t>{0, 0, 10, 10, 10, 10});
  CHECK(scratch_of_scan<collective::exclusive_scan>(twos) == std::vector<std::size_t>{0, 0, 20, 10, 10, 20});
  // Where nodes are uneven, the first rank of a node gets from the last what they make together.
  CHECK(scratch_of_scan<collective::scan>({0, 0, 0, 1, 1}) == std::vector<std::size_t>{20, 0, 0, 20, 10});
}
