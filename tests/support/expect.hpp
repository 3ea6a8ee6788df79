// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a rank of a test expects; it throws where that is not so, for a rank may be a process of its own.
#pragma once

#include <stdexcept>
#include <string>

#include "tutti/core/error.hpp"
#include "tutti/launch/local.hpp"

namespace tutti::testing {

inline void expect(bool truth, std::string const& what) {
  if (!truth) throw std::runtime_error(what);
}

// What a call throws.
template <class F>
error error_of(F&& f) {
  try {
    f();
  } catch (error const& e) {
    return e;
  }
  return error({.what = "nothing was thrown"});
}

inline void expect_error(error const& e, error_code code, std::string const& words) {
  expect(e.code() == code && std::string(e.what()).find(words) != std::string::npos,
         "expected \"" + words + "\", got \"" + e.what() + "\"");
}

// What forked ranks that do nothing fail to start with.
inline std::string start_failure(int ranks) {
  try {
    run_local(ranks, [](auto&) {});
  } catch (error const& e) {
    return e.what();
  }
  return "nothing";
}

}  // namespace tutti::testing
