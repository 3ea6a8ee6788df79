// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A tuning table is refused with a sentence, or what is written of it reads back the same.
// runs: 40000
#include <string>

#include "fuzz/input.hpp"
#include "tutti/core/error.hpp"
#include "tutti/tune/text.hpp"

void take(std::string const& text) {
  using namespace tutti::detail;
  try {
    // The first writing drops blanks around words.
    std::string const once = to_text(parse_table(text, "input").view());
    std::string const twice = to_text(parse_table(once, "written").view());
    require(to_text(parse_table(twice, "written again").view()) == twice);
  } catch (tutti::error const& e) {
    require(e.code() == tutti::error_code::bad_argument);
    require(e.happened().find("tuning table input") == 0);
  }
}
