// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// run: a program's ranks, whoever starts them.
#pragma once

#include <utility>

#include "tutti/launch/init.hpp"
#include "tutti/launch/local.hpp"
#include "tutti/launch/place.hpp"

namespace tutti {

// Calls f(comm) at this process's rank where a launcher started it, as init finds, and otherwise in `ranks` processes that
// are forked for it; returns when f has, at all forked ranks.
// Throws error as run_local does, or as init; under a launcher also what f throws.
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
