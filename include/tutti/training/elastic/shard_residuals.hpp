// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What compression has lost of the gradients of each shard of the data.
#pragma once

#include <cstddef>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/config.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/training/checkpoint/saved_array.hpp"

namespace tutti::detail {

// The residuals of the shards that this rank has at present. Each of the `shards` has `values` of them.
class shard_residuals {
 public:
  // Throws error: bad_argument if there are no shards.
  shard_residuals(std::size_t shards, std::size_t values, std::source_location where);

  std::size_t shards() const { return shards_; }
  std::size_t values() const { return values_; }
  // Of a rank.
  extent shards_of(int rank, int ranks) const { return part(shards_, ranks, rank); }
  extent own() const { return own_; }
  // Of the k-th shard of this rank.
  std::span<float> of(std::size_t k) { return std::span(all_).subspan(k * values_, values_); }

  void rescale(double by);

  // Makes room for those of the shards of this rank, whose values the caller restores.
  [[gnu::cold]] training::saved_array describe(int rank, int ranks, std::string name);
  // Throws error: bad_argument unless these are the shards of this rank, and `out` has room for a gradient.
  void expect_ready(int rank, int ranks, std::span<float const> out, std::source_location where) const;

 private:
  std::size_t shards_, values_;
  extent own_{};
  int ranks_ = 0;  // that there were when own_ was determined
  std::vector<float> all_{};
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/elastic/shard_residuals_impl.hpp"
#endif
