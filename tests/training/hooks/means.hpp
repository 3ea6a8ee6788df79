// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the gradients must be at the end of a step, whatever the hook.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// The same on all ranks, and zero for a parameter that no rank has used.
template <class Model, class Comm>
void expect_same_means(Model& model, Comm& comm) {
  for (std::size_t i = 0; i < model.size(); ++i) {
    std::vector<float> of_rank_0(model.gradient(i).begin(), model.gradient(i).end());
    broadcast(comm, of_rank_0, 0);
    expect(std::ranges::equal(of_rank_0, model.gradient(i)), "ranks have different means");
    expect(model.used(i) || std::ranges::count(of_rank_0, 0) == std::ssize(of_rank_0),
           "the gradient of an unused parameter is not zero");
  }
}

}  // namespace tutti::testing
