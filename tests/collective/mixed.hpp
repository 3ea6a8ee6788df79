// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random sequences of collectives without a pause between them: what one leaves behind must not disturb the next.
#pragma once

#include <random>

#include "support/conformance.hpp"

namespace tutti::testing {

template <class Comm>
void check_random_sequence(Comm& comm, unsigned seed, int calls) {
  conformance<Comm> check(comm);
  std::mt19937 random(seed);  // the same on all ranks
  auto const pick = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  for (int i = 0; i < calls; ++i) {
    auto const c = every_collective[pick(every_collective.size())];
    auto id = static_cast<algorithm_id>(pick(algorithms::size + 1));
    if (!objection(id, {c, 8, comm.size(), true}).empty()) id = algorithm_id::automatic;
    trial const t{.options = {.algorithm = id},
                  .count = pick(2) == 0 ? pick(20) : pick(9000),
                  .root = static_cast<int>(pick(static_cast<std::size_t>(comm.size()))),
                  .in_place = pick(2) == 0,
                  .shared = pick(2) == 0};
    if (pick(5) == 0 && (id == algorithm_id::automatic || find_schedule(id, c).ragged))
      check.template check_ragged<float>(c, t, sum{});
    else check.template check<float>(c, t, sum{});
  }
}

}  // namespace tutti::testing
