// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The output of a program that checks a GPU, without doctest.
#pragma once

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

namespace tutti::testing {

inline int failed = 0;

inline void report(std::string_view what, bool good) {
  std::printf("%-6s %.*s\n", good ? "ok" : "FAILED", static_cast<int>(what.size()), what.data());
  std::fflush(stdout);
  failed += !good;
}

// The same for a check that throws what it finds wrong.
template <class Check>
void report_run(std::string const& what, Check const& check) {
  try {
    check();
  } catch (std::exception const& e) {
    return report(what + ": " + e.what(), false);
  }
  report(what, true);
}

}  // namespace tutti::testing
