// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages of failed tests show texts, and not where they are in memory.
#include <doctest/doctest.h>

TEST_CASE("a message shows a C string") {
  char const* const text = "shown";
  char const* const none = nullptr;
  CHECK(doctest::toString(text) == "shown");
  CHECK(doctest::toString(none) == "null");
}
