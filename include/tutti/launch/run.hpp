// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// run: runs a program's ranks, with or without a launcher.
#pragma once

#include <utility>

#include "tutti/launch/init.hpp"
#include "tutti/launch/local.hpp"
#include "tutti/launch/place.hpp"

namespace tutti {

// If a launcher started this process, calls f(comm) as the rank that init finds. Otherwise forks `ranks` processes that
// call it. Returns when f has returned, at all forked ranks.
// Throws error as run_local or init do; under a launcher also the exceptions of f.
//
//   int main() {
//     tutti::run(4, [](auto& comm) { tutti::barrier(comm); });
//   }
template <class F>
void run(int ranks, F&& f) {
  detail::expect_ranks(ranks);
  if (find_place().launcher.empty()) return run_local(ranks, std::forward<F>(f));
  auto comm = init();
  f(comm);
}

}  // namespace tutti
