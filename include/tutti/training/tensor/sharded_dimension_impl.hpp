// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/tensor/sharded_dimension.hpp.
#pragma once

#include "tutti/call/communicator.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/tensor/sharded_dimension.hpp"

namespace tutti::detail {

TUTTI_INLINE void expect_sharded(training::sharded_dimension const& along, std::size_t whole, std::size_t part,
                                 int ranks, int rank, std::source_location where) {
  auto const shape = [&] { return join({along.outer, " x ", along.extent, " x ", along.inner}); };
  if (rank < 0 || rank >= ranks)
    refuse(-1, join({"the part of rank ", rank, " was asked for, but there are ", ranks, " ranks, numbered from 0"}),
           "pass the size of the group and a rank of it", where);
  if (whole != along.size())
    refuse(rank, join({"an array of ", whole, " elements is passed as one of ", shape()}),
           "pass the whole array, and its own sharded_dimension", where);
  if (std::size_t const own = along.size(ranks, rank); part != own)
    refuse(rank,
           join({"an array of ", part, " elements is passed as this rank's part of ", shape(), ", which has ", own}),
           "divide the middle extent as tutti::part does", where);
}

}  // namespace tutti::detail
