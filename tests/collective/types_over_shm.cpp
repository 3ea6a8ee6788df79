// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every type and every operation, by every algorithm that all_reduce has, over shm.
// labels: processes wide
// timeout: 300
#include <doctest/doctest.h>

#include "support/conformance.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

template <class Comm>
void check_types_and_operations(Comm& comm) {
  conformance<Comm> check(comm);
  for_each_type(element_types{}, [&]<class T>() {
    for_two_operations<T>([&]<class Op>(Op const& op) {
      for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule const& s) {
        if (c != collective::all_reduce || (s.needs_commutative && !is_commutative<Op>)) return;
        for (std::size_t const count : {1u, 37u, 1500u})
          check.template check_all_reduce<T>({.options = {.algorithm = id}, .count = count, .in_place = count == 37},
                                             op);
      });
    });
  });
}

}  // namespace

TEST_CASE("every type and every operation reduce by every algorithm over shm") {
  for (int const ranks : ranks_to_test({1, 2, 3, 5})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_types_and_operations(comm); }));
  }
}
