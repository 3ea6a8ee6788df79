// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Objects, named arrays and seeds over shared memory.
// labels: processes memory
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "collective/objects.hpp"
#include "support/sanitized.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("objects of any size, named arrays, seeds") {
  for (int const ranks : ranks_to_test({1, 2, 3, 5, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_objects(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_named(comm); }));
  }
}

TEST_CASE("what cannot be written or read is an error at all who were to get it") {
  for (int const ranks : ranks_to_test({2, 5})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_bad_objects(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_refused_scatter(comm); }));
  }
}

TEST_CASE("an object of a gigabyte") {
  CHECK_NOTHROW(run_local(2, [](auto& comm) {
    std::size_t const count = std::size_t{1} << (sanitized ? 20 : 28);
    std::vector<int> object;
    if (comm.is_main()) object.assign(count, 42);
    broadcast_object(comm, object);
    expect(object.size() == count && object.front() == 42 && object.back() == 42, "all of it");
  }));
}
