// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "reductions.hpp"

namespace tutti_torch {

tutti::work start_reduce(communicator& comm, at::Tensor const& data, c10d::ReduceOp const& op, int root,
                         tutti::options const& o) {
  return with_type_and_operation(data.scalar_type(), op, [&]<class T>(auto const& operation) {
    return tutti::reduce(tutti::async(comm), elements<T>(data), operation, root, o);
  });
}

}  // namespace tutti_torch
