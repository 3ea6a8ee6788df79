// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every layout maps chunks to elements.
#include <doctest/doctest.h>

#include <vector>

#include "tutti/execute/layout.hpp"

using namespace tutti;
using namespace tutti::detail;

TEST_CASE("lanes and chunks of one array cover it") {
  layout const l = layout::whole(1000, 2, 3, 16);
  std::size_t next = 0;
  for (int lane : {0, 1})
    for (int c : {0, 1, 2}) {
      CHECK(l.at(lane, c).begin == next);
      next = l.at(lane, c).end();
    }
  CHECK(next == 1000);
  CHECK(l.end() == 1000);
}

TEST_CASE("a buffer of one block begins with it") {
  std::vector<std::size_t> const counts{3, 0, 5}, offsets{10, 2, 20};
  layout const table = layout::table(counts.data(), offsets.data(), 3);
  CHECK(table.at(0, 2) == extent{20, 5});
  CHECK(table.only(2).at(0, 2) == extent{0, 5});
  CHECK(table.end() == 25);
  CHECK(table.count(0, {0, 3}) == 8);
  CHECK(layout::blocks(4, 3).only(1).at(0, 1) == extent{0, 4});
}
