// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// doctest, with messages that show C strings rather than their addresses. Its own option for that does not compile in version 2.4.9.
#pragma once

#include_next <doctest/doctest.h>

template <>
struct doctest::StringMaker<char const*> {
  static String convert(char const* text) { return text == nullptr ? "null" : text; }
};
