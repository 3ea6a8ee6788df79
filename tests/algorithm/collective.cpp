// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of collectives describes each of them correctly.
#include "tutti/algorithm/collective.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace tutti;
using namespace tutti::detail;

namespace {

std::string those_that(bool (&property)(collective)) {
  std::string out;
  for (collective const c : every_collective)
    if (property(c)) out += std::string(name(c)) + " ";
  return out;
}

}  // namespace

static_assert(every_collective.front() == collective::all_reduce &&
              every_collective.back() == collective::exclusive_scan);

TEST_CASE("properties of the collectives") {
  CHECK(those_that(reduces) == "all_reduce reduce reduce_scatter scan exclusive_scan ");
  CHECK(those_that(is_prefix) == "scan exclusive_scan ");
  CHECK(those_that(rooted) == "reduce broadcast gather scatter ");
  CHECK(those_that(by_block) == "reduce_scatter all_gather gather scatter all_to_all ");
  CHECK(those_that(deals) == "reduce_scatter scatter all_to_all ");
  CHECK(those_that(collects) == "all_gather gather all_to_all ");
  CHECK(those_that(all_hear_all) == "all_reduce reduce_scatter all_gather all_to_all barrier ");
}

TEST_CASE("a number that is no collective has no name") { CHECK(name(static_cast<collective>(200)) == "?"); }
