// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that the survivors of a shrink exclude.
#include <doctest/doctest.h>

#include <vector>

#include "explore/explore.hpp"
#include "explore/ranks.hpp"
#include "explore/weakenings.hpp"

using namespace tutti;
using namespace tutti::testing::explore;

namespace {

// Rank 0 and the last one are excluded; the latter does not run.
program with_survivors(ranks& group, int all) {
  return group.running([&group, all](int rank) {
    loopback& self = group[rank];
    if (rank > 0) return self.exclude({0, all - 1});
    if (!self.excluded(0)) return;
    for (int r = 0; r < all; ++r)
      expect(self.marked_as_excluded(r) == (r == 0 || r == all - 1), "an excluded rank takes another for a survivor");
    expect(self.excluded(0), "a rank is no longer excluded");
  });
}

}  // namespace

TEST_CASE("an excluded rank knows the survivors") {
  ranks two(2, 3), three(3, 4);
  program const by_one = with_survivors(two, 3), by_two = with_survivors(three, 4);
  result const r = holds("exclusion, 1 survivor", by_one);
  finds(by_one, weakenings_of(r));
  holds("exclusion, 2 survivors", by_two);
}
