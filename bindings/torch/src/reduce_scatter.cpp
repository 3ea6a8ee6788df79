// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "reductions.hpp"

namespace tutti_torch {

tutti::work start_reduce_scatter(communicator& comm, at::Tensor const& in, at::Tensor const& out,
                                 c10d::ReduceOp const& op, tutti::options const& o) {
  return with_type_and_operation(in.scalar_type(), op, [&]<class T>(auto const& operation) {
    return tutti::reduce_scatter(tutti::async(comm), std::span<T const>(elements<T>(in)), elements<T>(out), operation,
                                 o);
  });
}

}  // namespace tutti_torch
