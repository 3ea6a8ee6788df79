// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Objects, named arrays and seeds over loopback.
// labels: threads twin
#include <doctest/doctest.h>

#include "collective/objects.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("objects of any size, named arrays, seeds over loopback") {
  for (int const ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_objects(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_named(comm); }));
  }
  CHECK_NOTHROW(run_threads(3, [](auto& comm) { check_bad_objects(comm); }));
  CHECK_NOTHROW(run_threads(3, [](auto& comm) { check_refused_scatter(comm); }));
}
