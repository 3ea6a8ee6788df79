// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "reductions.hpp"

namespace tutti_torch {

tutti::work start_all_reduce(communicator& comm, at::Tensor const& data, c10d::ReduceOp const& op,
                             tutti::options const& o) {
  return with_type_and_operation(data.scalar_type(), op, [&]<class T>(auto const& operation) {
    return tutti::all_reduce(tutti::async(comm), elements<T>(data), operation, o);
  });
}

}  // namespace tutti_torch
