// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a check with the widest instructions of this CPU, and with those that all CPUs have.
#pragma once

#include <utility>

#include "tutti/reduce/pack.hpp"

namespace tutti::testing {

template <class F>
void on_all_cpus(F const& f) {
  f();
#if defined(__x86_64__)
  bool const had = std::exchange(detail::use_widest, false);
  f();
  detail::use_widest = had;
#endif
}

}  // namespace tutti::testing
