// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every type of a list with every operation that fits it, by every algorithm that all_reduce has.
#pragma once

#include "support/conformance.hpp"

namespace tutti::testing {

template <class Types, class Comm>
void check_types_and_operations(Comm& comm) {
  conformance<Comm> check(comm);
  for_each_type(Types{}, [&]<class T>() {
    for_each_operation<T>([&]<class Op>(Op const& op) {
      for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule const& s) {
        if (c != collective::all_reduce || (s.needs_commutative && !is_commutative<Op>)) return;
        for (std::size_t const count : {1u, 37u, 1500u})
          check.template check_all_reduce<T>({.options = {.algorithm = id}, .count = count, .in_place = count == 37},
                                             op);
      });
    });
  });
}

}  // namespace tutti::testing
