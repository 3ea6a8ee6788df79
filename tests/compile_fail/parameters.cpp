// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays that cannot be the parameters of a model.
#include <ranges>
#include <span>
#include <vector>

#include "tutti/training/same_parameters.hpp"
#include "tutti/tutti.hpp"

void call(tutti::communicator<tutti::loopback>& comm, std::vector<std::vector<float>>& layers) {
  auto const copy = [](std::vector<float> const& layer) { return layer; };
  auto const view = [](std::vector<float>& layer) { return std::span(layer); };
  std::vector<std::vector<float>> const& fixed = layers;
#ifdef TUTTI_CONTROL
  tutti::training::broadcast_parameters(comm, layers);
  tutti::training::broadcast_parameters(comm, layers | std::views::transform(view));
#elif TUTTI_CASE == 1  // expect: these arrays are const, but training changes parameters
  tutti::training::broadcast_parameters(comm, fixed);
#elif TUTTI_CASE == 2  // expect: this list makes its arrays when they are asked for
  tutti::training::broadcast_parameters(comm, layers | std::views::transform(copy));
#endif
}
