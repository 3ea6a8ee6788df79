// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers are read up to a limit, without sign and spaces. Texts are cut between characters, and JSON is UTF-8 whatever the text.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "tutti/core/json.hpp"
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

TEST_CASE("write_terminated cuts a text before the character that does not fit") {
  struct example {
    std::string_view text, written;
  };
  for (example const& e :
       {example{"", ""}, example{"abcde", "abcde"}, example{"abcdefg", "abcdef"}, example{"aéé", "aéé"},
        example{"aééé", "aéé"}, example{"ab€€", "ab€"}, example{"abc€€", "abc€"}, example{"abcd€", "abcd"},
        example{"abc\U0001F600", "abc"}, example{"ab\U0001F600", "ab\U0001F600"}}) {
    char out[7];
    tutti::detail::write_terminated(out, e.text);
    CHECK(std::string_view(out) == e.written);
  }
}

TEST_CASE("json_string replaces what is not UTF-8") {
  using tutti::detail::json_string;
  CHECK(json_string("\"é€\U0001F600\\\n") == "\"\\\"é€\U0001F600\\\\\\u000a\"");
  // A cut character, a stray byte, overlong forms, a surrogate, and a number above the highest.
  for (std::string_view const text : {"\xC3", "\xE2\x82", "\xA9", "\xC0\xAF", "\xE0\x80\xAF", "\xF0\x80\x80\xAF",
                                      "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF"}) {
    std::string replaced;
    for (std::size_t i = 0; i < text.size(); ++i) replaced += "\\ufffd";
    CHECK(json_string(text) == "\"" + replaced + "\"");
  }
  CHECK(json_string("\xC3(") == "\"\\ufffd(\"");
}
