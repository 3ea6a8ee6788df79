// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers are read up to a limit, without sign and spaces.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "tutti/core/text.hpp"

TEST_CASE("read_number reads the digits at the start of a text, up to a limit") {
  constexpr std::uint64_t any = std::numeric_limits<std::uint64_t>::max();
  struct example {
    std::string_view text;
    std::uint64_t most;
    std::size_t digits;
    std::uint64_t number;
  };
  for (example const& e :
       {example{"0", any, 1, 0}, example{"123", any, 3, 123}, example{"0042(x2)", any, 4, 42}, example{"9", 9, 1, 9},
        example{"250", 255, 3, 250}, example{"255", 255, 3, 255}, example{"18446744073709551615", any, 20, any}}) {
    std::uint64_t number = 1;
    CHECK(tutti::detail::read_number(e.text, e.most, number) == e.digits);
    CHECK(number == e.number);
  }
  for (example const& e :
       {example{"", any, 0, 0}, example{"-1", any, 0, 0}, example{"+1", any, 0, 0}, example{" 1", any, 0, 0},
        example{"x", any, 0, 0}, example{"9", 8, 0, 0}, example{"256", 255, 0, 0},
        example{"18446744073709551616", any, 0, 0}, example{"99999999999999999999999", any, 0, 0}}) {
    std::uint64_t number = 1;
    CHECK(tutti::detail::read_number(e.text, e.most, number) == 0);
  }
}
