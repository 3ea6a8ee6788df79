// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages of a tool on standard error.
#pragma once

#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>

// fmt::print would throw if standard error is closed, or a file on a full disk; the work goes on without the message.
template <class... T>
void complain(fmt::format_string<T...> format, T&&... values) {
  std::fputs(fmt::format(format, std::forward<T>(values)...).c_str(), stderr);
}
