// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/bucket_plan.hpp.
#pragma once

#include <algorithm>
#include <numeric>

#include "tutti/core/cache_line.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/bucket_plan.hpp"

namespace tutti::training {

TUTTI_INLINE void bucket_plan::align(std::size_t element_bytes) {
  std::size_t const line = std::max<std::size_t>(1, tutti::detail::cache_line / element_bytes);
  elements = (elements + line - 1) / line * line;
}

TUTTI_INLINE void bucket_plan::begin_bucket(std::size_t element_bytes) {
  align(element_bytes);
  buckets.push_back({.begin = elements});
}

TUTTI_INLINE void bucket_plan::add(std::size_t parameter, std::size_t count) {
  places[parameter] = {buckets.size() - 1, elements, count};
  buckets.back().parameters.push_back(parameter);
  elements += count;
  buckets.back().count = elements - buckets.back().begin;
}

}  // namespace tutti::training

namespace tutti::detail {

// Marks the gradients that begin a bucket, by their place in `order`.
TUTTI_INLINE void mark_bucket_begins(std::span<std::size_t const> counts, std::span<std::size_t const> order,
                                     training::bucket_sizes const& sizes, std::size_t element_bytes,
                                     std::vector<bool>& begins) {
  std::size_t last = order.size();  // where the last bucket begins, at the latest
  for (std::size_t elements = 0; sizes.last_bytes > 0 && last > 0; --last) {
    std::size_t const more = counts[order[last - 1]];
    if (elements > 0 && elements + more > sizes.last_bytes / element_bytes) break;
    elements += more;
  }
  std::size_t most = sizes.first_bytes / element_bytes, elements = 0;  // of this bucket
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::size_t const more = counts[order[i]];
    bool const ends = elements > 0 && (i == last || elements + more > most);
    if (ends) most = sizes.bytes / element_bytes;
    if (ends) elements = 0;
    if (ends || i == 0) begins[i] = true;
    elements += more;
  }
}

}  // namespace tutti::detail

namespace tutti::training {

TUTTI_INLINE bucket_plan plan_buckets(std::span<std::size_t const> counts, std::span<std::size_t const> order,
                                      bucket_sizes const& sizes, std::size_t element_bytes,
                                      std::span<bucket_sizes const> others) {
  std::vector<bool> begins(order.size()), may_begin(order.size());
  tutti::detail::mark_bucket_begins(counts, order, sizes, element_bytes, begins);
  for (bucket_sizes const& other : others)
    tutti::detail::mark_bucket_begins(counts, order, other, element_bytes, may_begin);
  bucket_plan out;
  out.places.resize(counts.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (begins[i]) out.begin_bucket(element_bytes);
    if (may_begin[i]) out.align(element_bytes);
    out.add(order[i], counts[order[i]]);
  }
  return out;
}

}  // namespace tutti::training

namespace tutti::detail {

TUTTI_INLINE std::vector<std::size_t> last_first(std::size_t parameters) {
  std::vector<std::size_t> out(parameters);
  std::iota(out.rbegin(), out.rend(), std::size_t{0});
  return out;
}
TUTTI_INLINE std::string line_about(training::bucket_sizes const& sizes) {
  return join({"buckets of ", sizes.first_bytes, ", ", sizes.bytes, " and ", sizes.last_bytes, " bytes"});
}

}  // namespace tutti::detail
