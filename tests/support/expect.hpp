// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expectations of a rank of a test. They throw if they fail, because a rank may be a process of its own.
#pragma once

#include <latch>
#include <stdexcept>
#include <string>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/launch/local.hpp"

namespace tutti::testing {

inline void expect(bool truth, std::string const& what) {
  if (!truth) throw std::runtime_error(what);
}

// The error that a call throws.
template <class F>
error error_of(F&& f) {
  try {
    static_cast<void>(f());
  } catch (error const& e) {
    return e;
  }
  return error({.what = "nothing was thrown"});
}

struct arrival_at_end {
  std::latch& at;
  ~arrival_at_end() { at.arrive_and_wait(); }
};

// The errors of several ranks, which are threads; none leaves before all have finished.
template <class F>
std::vector<error> errors_of(int ranks, F const& f) {
  std::vector<error> out(static_cast<std::size_t>(ranks), error({.what = "nothing was thrown"}));
  std::latch all(ranks);
  run_threads(ranks, [&](auto& comm) {
    arrival_at_end const last{all};
    out[static_cast<std::size_t>(comm.rank())] = error_of([&] { f(comm); });
  });
  return out;
}

inline bool contains(std::string const& text, std::string const& words) {
  return text.find(words) != std::string::npos;
}
inline bool contains(error const& e, std::string const& words) { return contains(std::string(e.what()), words); }

inline void expect_error(error const& e, error_code code, std::string const& words) {
  expect(e.code() == code && contains(e, words), "expected \"" + words + "\", got \"" + e.what() + "\"");
}

// The error of starting forked ranks that do nothing.
inline std::string start_failure(int ranks) {
  try {
    run_local(ranks, [](auto&) {});
  } catch (error const& e) {
    return e.what();
  }
  return "nothing";
}

}  // namespace tutti::testing
