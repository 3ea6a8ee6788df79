// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All ways of training beside one process. What is called here holds for every transport and number of ranks of the tests that include
// it, so they and this list are the table of what is compared.
#pragma once

#include <cstdint>
#include <vector>

#include "support/expect.hpp"
#include "support/sanitized.hpp"
#include "training/elastic/compressed_toy.hpp"
#include "training/elastic/toy.hpp"
#include "training/equality/compressed_training.hpp"
#include "training/equality/divided_training.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// Memory errors and races show among few ranks.
inline std::vector<int> const compared_ranks = sanitized ? std::vector{1, 2, 3, 4} : std::vector{1, 2, 3, 4, 8};

template <class Comm>
void check_elastic_training(Comm& comm) {
  constexpr std::uint64_t steps = 5;
  toy_training toy;
  training::elastic_loop loop(comm.split(0).value());
  loop.run(
      steps, [&](auto& its) { return toy.arrays(its); },
      [&](auto& its, std::uint64_t number) { toy.step(its, number); });
  expect(toy.hash() == toy_training::hash_after(steps), "elastic training has other bits than one process");
}

template <class Comm>
void check_all_training(Comm& comm) {
  check_divided_training(
      comm);  // data parallel, sharded in stages 1 to 3, tensor, sequence, pipeline, all meshes of these
  check_compressed_training(comm);  // all hooks that compress
  check_elastic_training(comm);
  check_compressed_elastic_training(comm);
}

}  // namespace tutti::testing
