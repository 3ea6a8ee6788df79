// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Steps of training that would compute something else.
#include <vector>

#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

void call(tutti::communicator<tutti::loopback>& comm, std::vector<std::vector<float>>& layers) {
  using namespace tutti::training;
  std::vector<float> const fixed(4);
  sharded_data_parallel model(comm, layers, sgd{});
  optimizer descent(layers, sgd{});
#ifdef TUTTI_CONTROL
  model.step();
  copy_to_group{}.backward(comm, layers[0]);
  tutti::work const sum = reduce_from_group{}.forward(tutti::async(comm), layers[0]);
#elif TUTTI_CASE == 1  // expect: this model has an optimiser of its own
  descent.step(model);
#elif TUTTI_CASE == 2  // expect: the sum replaces the elements of this array
  copy_to_group{}.backward(comm, fixed);
#elif TUTTI_CASE == 3  // expect: the sum replaces the elements of this array
  tutti::work const sum = reduce_from_group{}.forward(tutti::async(comm), std::vector<float>(4));
#endif
}
