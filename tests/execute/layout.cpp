// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From chunks to elements: every layout, and the pieces of a range of several chunks.
#include <doctest/doctest.h>

#include <vector>

#include "tutti/execute/layout.hpp"

using namespace tutti;

namespace {

struct piece {
  std::size_t begin, offset, count;
  friend bool operator==(piece const&, piece const&) = default;
};

std::vector<piece> pieces(surface<int> const& s, chunks const& what, extent range) {
  std::vector<piece> out;
  s.for_each_piece(0, what, range, [&](int* data, std::size_t offset, std::size_t n) {
    out.push_back({static_cast<std::size_t>(data - s.data), offset, n});
  });
  return out;
}

}  // namespace

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

TEST_CASE("neighbouring chunks are one piece; a range that wraps is two") {
  std::vector<int> memory(100);
  surface<int> const s{memory.data(), layout::blocks(10, 5)};
  CHECK(pieces(s, {1, 3}, {0, 30}) == std::vector<piece>{{10, 0, 30}});
  CHECK(pieces(s, {1, 3}, {5, 20}) == std::vector<piece>{{15, 0, 20}});
  CHECK(pieces(s, {4, 3}, {0, 30}) == std::vector<piece>{{40, 0, 10}, {0, 10, 20}});
  CHECK(pieces(s, {4, 3}, {8, 4}) == std::vector<piece>{{48, 0, 2}, {0, 2, 2}});
  CHECK(pieces(s, {2, 3, 1, -1}, {0, 30}) == std::vector<piece>{{20, 0, 10}, {10, 10, 10}, {0, 20, 10}});
  CHECK(pieces(s, {0, 2}, {7, 0}).empty());
}

TEST_CASE("where slices share their room, every slice is at its begin") {
  std::vector<int> memory(100);
  surface<int> const s{memory.data(), layout::whole(1000, 1, 1, 1), 16};
  CHECK(pieces(s, {}, {48, 16}) == std::vector<piece>{{0, 0, 16}});
}
