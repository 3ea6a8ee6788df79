// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The contiguous pieces of a range of several chunks, and the messages of a region.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "tutti/execute/surfaces.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

// In steps of at most `stride` elements.
std::vector<extent> pieces_of(surface<int> const& s, chunks const& what, extent range, std::size_t stride = 1000) {
  std::vector<extent> out;
  for (auto p = s.pieces(0, what, range); p.count() > 0; p.skip(out.back().count))
    out.push_back({static_cast<std::size_t>(p.data() - s.data), std::min(p.count(), stride)});
  return out;
}

}  // namespace

TEST_CASE("neighbouring chunks are one piece; a range that wraps is two") {
  std::vector<int> memory(100);
  surface<int> const s{memory.data(), layout::blocks(10, 5)};
  CHECK(pieces_of(s, {1, 3}, {0, 30}) == std::vector<extent>{{10, 30}});
  CHECK(pieces_of(s, {1, 3}, {5, 20}) == std::vector<extent>{{15, 20}});
  CHECK(pieces_of(s, {4, 3}, {0, 30}) == std::vector<extent>{{40, 10}, {0, 20}});
  CHECK(pieces_of(s, {4, 3}, {8, 4}) == std::vector<extent>{{48, 2}, {0, 2}});
  CHECK(pieces_of(s, {2, 3, 1, -1}, {0, 30}) == std::vector<extent>{{20, 10}, {10, 10}, {0, 10}});
  CHECK(pieces_of(s, {0, 2}, {7, 0}).empty());
}

TEST_CASE("a walk through pieces may stop within one; chunks without elements are passed over") {
  std::vector<int> memory(100);
  surface<int> const s{memory.data(), layout::blocks(10, 5)};
  CHECK(pieces_of(s, {4, 2}, {5, 10}, 3) == std::vector<extent>{{45, 3}, {48, 2}, {0, 3}, {3, 2}});
  std::vector<std::size_t> const counts{3, 0, 5}, offsets{0, 50, 3};
  surface<int> const uneven{memory.data(), layout::table(counts.data(), offsets.data(), 3)};
  CHECK(pieces_of(uneven, {0, 3}, {0, 8}) == std::vector<extent>{{0, 8}});
  CHECK(pieces_of(uneven, {1, 1}, {0, 0}).empty());
}

TEST_CASE("where slices share their room, every slice is at its begin") {
  std::vector<int> memory(100);
  surface<int> const s{memory.data(), layout::whole(1000, 1, 1, 1), 16};
  CHECK(pieces_of(s, {}, {48, 16}) == std::vector<extent>{{0, 16}});
}

TEST_CASE("a region is one message for all peers, or a chunk for each") {
  std::vector<std::size_t> const counts{3, 0, 5}, offsets{0, 3, 3};
  surfaces<int> memory{};
  memory.output.where = layout::table(counts.data(), offsets.data(), 3);
  memory.scratch.where = layout::whole(100, 1, 3, 16);
  region const together{space::output, {2, 2}, false}, split{space::output, {2, 2}, true};
  CHECK(memory.count(0, together, 1) == 8);
  CHECK(memory.largest(0, together) == 8);
  CHECK(memory.count(0, split, 0) == 5);
  CHECK(memory.count(0, split, 1) == 3);
  CHECK(memory.largest(0, split) == 5);
  CHECK(memory.share(split, 1).first == 0);
  CHECK(memory.largest_chunk(0) == 48);
}

TEST_CASE("what is only passed on has the sizes of the scratch memory") {
  surfaces<int> memory{};
  memory.scratch.where = layout::whole(10, 1, 1, 1);
  CHECK(memory.count(0, {space::none, {}, false}, 0) == 10);
}
