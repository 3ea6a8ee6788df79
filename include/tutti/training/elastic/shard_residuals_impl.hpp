// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/elastic/shard_residuals.hpp.
#pragma once

#include "tutti/call/refuse.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/elastic/shard_residuals.hpp"
#include "tutti/training/hooks/residual.hpp"

namespace tutti::detail {

TUTTI_INLINE shard_residuals::shard_residuals(std::size_t shards, std::size_t values, std::source_location where)
    : shards_(shards), values_(values) {
  if (shards == 0)
    refuse(-1, "gradients are to be averaged over 0 shards", "divide the data into at least one shard", where);
}

TUTTI_INLINE void shard_residuals::rescale(double by) { scale_residual(all_, by); }

TUTTI_INLINE training::saved_array shard_residuals::describe(int rank, int ranks, std::string name) {
  own_ = shards_of(rank, ranks);
  ranks_ = ranks;
  all_.resize(own_.count * values_);
  return training::divided(std::move(name), all_);
}

TUTTI_INLINE void shard_residuals::expect_ready(int rank, int ranks, std::span<float const> out,
                                                std::source_location where) const {
  extent const now = shards_of(rank, ranks);
  if (ranks != ranks_ || now.begin != own_.begin)
    refuse(rank, "the residuals are not those of the shards that this rank has now",
           "list residuals(comm) in the state of the elastic_loop, or call it whenever the ranks have changed", where);
  if (out.size() != values_)
    refuse(rank, join({"the mean of gradients of ", values_, " values does not fit into ", out.size()}),
           "pass an array for all values of a gradient", where);
}

}  // namespace tutti::detail
