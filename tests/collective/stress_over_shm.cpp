// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random operations in flight over shm; TUTTI_TEST_OPERATIONS of them, or 3,000.
// labels: processes
// timeout: 300
#include <doctest/doctest.h>

#include <cstdlib>

#include "collective/stress.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

int many_operations() {
  char const* const wanted = std::getenv("TUTTI_TEST_OPERATIONS");
  return wanted != nullptr ? std::atoi(wanted) : sanitized ? 500 : 3000;
}

}  // namespace

TEST_CASE("operations of all kinds are in flight at once over shm") {
  CHECK_NOTHROW(run_local(8, [](auto& comm) { check_stress(comm, 2, many_operations()); }));
}
