// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which part of each bucket a rank owns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <span>
#include <vector>

#include "tutti/core/partition.hpp"
#include "tutti/training/bucket_plan.hpp"

namespace tutti::training {

// The part of a parameter that a rank owns, in memory.
template <class T>
struct shard_part {
  std::size_t parameter = 0;
  extent elements{};                  // of the parameter
  std::span<T> values{};              // these
  std::vector<std::span<T>> state{};  // of the optimiser, for these: an array for each of its names
};

// Elements of a parameter that a rank owns, and where they lie in its shard.
struct owned_part {
  std::size_t parameter = 0;
  extent elements{};      // of the parameter
  std::size_t begin = 0;  // in arrays of the elements of the shard, such as the state of the optimiser

  friend bool operator==(owned_part const&, owned_part const&) = default;
};

// Every bucket is divided among all ranks, as shard_of divides a message; a rank's parts of all buckets, one after another,
// are its shard.
struct shard_plan {
  std::vector<std::vector<std::size_t>> counts{};  // of each bucket, for each rank
  std::vector<extent> mine{};                      // of each bucket, the elements of this rank
  std::vector<std::size_t> begins{};               // where these begin in the shard
  std::size_t elements = 0;                        // of the shard
  std::vector<owned_part> owned{};                 // in the order of the shard

  // Those of a bucket of this plan.
  std::span<owned_part const> owned_in(std::size_t bucket, bucket_plan const& plan) const {
    return std::ranges::equal_range(owned, bucket, {},
                                    [&](owned_part const& part) { return plan.places[part.parameter].bucket; });
  }
};

// The shard of one rank.
shard_plan plan_shards(bucket_plan const& plan, int ranks, int rank);

// A bucket for each unit, the last unit first. A unit is so many parameters that follow one another.
bucket_plan plan_units(std::span<std::size_t const> counts, std::span<std::size_t const> units,
                       std::size_t element_bytes);
// The parameters of each unit: as asked for, or one each. Throws bad_argument if these are more or fewer than all
// parameters, or if a unit has none.
std::vector<std::size_t> checked_units(std::span<std::size_t const> units, std::size_t parameters, int rank,
                                       std::source_location where);

}  // namespace tutti::training

#if !defined(TUTTI_COMPILED)
#include "tutti/training/sharded/shard_plan_impl.hpp"
#endif
