// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What tells operations of different ranks apart, lambdas among them.
#include <doctest/doctest.h>

#include "tutti/core/type_name.hpp"

namespace {
template <class T>
constexpr auto id_of(T const&) {
  return tutti::detail::type_id<T>();
}
}  // namespace

TEST_CASE("lambdas differ by signature and by the size of their captures, and with clang by their place") {
  int taken = 1;
  auto const sum = [](int a, int b) { return a + b; };
  auto const product = [](int a, int b) { return a * b; };
  auto const wide_sum = [](long a, long b) { return a + b; };
  auto const shifted_sum = [taken](int a, int b) { return a + b + taken; };
  CHECK(id_of(sum) != id_of(wide_sum));
  CHECK(id_of(sum) != id_of(shifted_sum));
#if defined(__clang__)
  CHECK(id_of(sum) != id_of(product));
#else
  CHECK(id_of(sum) == id_of(product));  // docs/collectives.md says so
#endif
  CHECK(sum(2, 3) + product(2, 3) == 11);
  CHECK(wide_sum(2, 3) + taken == shifted_sum(2, 3));
}
