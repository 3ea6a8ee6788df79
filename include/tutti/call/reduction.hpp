// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions of one message: all_reduce, reduce and scans.
#pragma once

#include <cstddef>
#include <source_location>

#include "tutti/call/perform.hpp"

namespace tutti::detail {

// `count` elements. `out` is null if this rank gets no result.
template <collective C, class Algorithm, class Comm, class T, class Op>
returned_by<Comm> reduce_message(Comm& comm, T const* in, T* out, std::size_t count, Op const& op, int root,
                                 options const& o, std::source_location where) {
  check_algorithm<Algorithm, C, Op>(comm, o, where);
  reduction<C, Algorithm, T, Op> call{
      {request_of<C, Algorithm, T, Op>(o, count, root), o.timeout, where, &names_of<T, Op>}, {in, out}, {op}};
  return perform(comm, call);
}

}  // namespace tutti::detail
