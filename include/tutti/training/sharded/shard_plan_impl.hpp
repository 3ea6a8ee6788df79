// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/sharded/shard_plan.hpp.
#pragma once

#include <string_view>

#include "tutti/call/communicator.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/training/sharded/shard_plan.hpp"

namespace tutti::training {

TUTTI_INLINE shard_plan plan_shards(bucket_plan const& plan, int ranks, int rank) {
  shard_plan out;
  for (auto const& bucket : plan.buckets) {
    out.counts.emplace_back();
    for (int r = 0; r < ranks; ++r) out.counts.back().push_back(shard_of(bucket.count, ranks, r).count);
    extent const mine = shard_of(bucket.count, ranks, rank);
    out.mine.push_back(mine);
    out.begins.push_back(out.elements);
    for (std::size_t const i : bucket.parameters) {
      std::size_t const first = plan.places[i].begin - bucket.begin;  // of the parameter, in the bucket
      std::size_t const begin = std::max(first, mine.begin), end = std::min(first + plan.places[i].count, mine.end());
      if (begin < end) out.owned.push_back({i, {begin - first, end - begin}, out.elements + begin - mine.begin});
    }
    out.elements += mine.count;
  }
  return out;
}

TUTTI_INLINE bucket_plan plan_units(std::span<std::size_t const> counts, std::span<std::size_t const> units,
                                    std::size_t element_bytes) {
  bucket_plan out;
  out.places.resize(counts.size());
  std::size_t end = counts.size();
  for (std::size_t u = units.size(); u-- > 0;) {
    out.begin_bucket(element_bytes);
    for (std::size_t i = end - units[u]; i < end; ++i) out.add(i, counts[i]);
    end -= units[u];
  }
  return out;
}

TUTTI_INLINE std::vector<std::size_t> checked_units(std::span<std::size_t const> units, std::size_t parameters,
                                                    int rank, std::source_location where) {
  if (units.empty()) return std::vector<std::size_t>(parameters, 1);
  constexpr std::string_view way_out =
      "give the number of parameters of each unit, at least one, in the order of the list";
  std::size_t sum = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (units[u] == 0)
      tutti::detail::refuse(rank, tutti::detail::join({"unit ", u, " has no parameter"}), way_out, where);
    if (units[u] > parameters)  // whose sum might overflow
      tutti::detail::refuse(
          rank, tutti::detail::join({"unit ", u, " has ", units[u], " parameters, but the model has ", parameters}),
          way_out, where);
    sum += units[u];
  }
  if (sum != parameters)
    tutti::detail::refuse(
        rank, tutti::detail::join({"the units have ", sum, " parameters together, but the model has ", parameters}),
        way_out, where);
  return {units.begin(), units.end()};
}

}  // namespace tutti::training
