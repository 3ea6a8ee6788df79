// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/bucket_plan.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/bucket_plan.hpp"

namespace tutti::training {

TUTTI_INLINE void bucket_plan::begin_bucket(std::size_t element_bytes) {
  std::size_t const line = std::max<std::size_t>(1, 64 / element_bytes);
  elements = (elements + line - 1) / line * line;
  buckets.push_back({.begin = elements});
}

TUTTI_INLINE void bucket_plan::add(std::size_t parameter, std::size_t count) {
  places[parameter] = {buckets.size() - 1, elements, count};
  buckets.back().parameters.push_back(parameter);
  buckets.back().count += count;
  elements += count;
}

TUTTI_INLINE bucket_plan plan_buckets(std::span<std::size_t const> counts, std::span<std::size_t const> order,
                                      bucket_sizes const& sizes, std::size_t element_bytes) {
  std::size_t last = order.size();  // where the last bucket begins, at the latest
  for (std::size_t elements = 0; sizes.last_bytes > 0 && last > 0; --last) {
    std::size_t const more = counts[order[last - 1]];
    if (elements > 0 && elements + more > sizes.last_bytes / element_bytes) break;
    elements += more;
  }
  bucket_plan out;
  out.places.resize(counts.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::size_t const parameter = order[i];
    std::size_t const most = (out.buckets.size() <= 1 ? sizes.first_bytes : sizes.bytes) / element_bytes;
    bool const ends = !out.buckets.empty() && out.buckets.back().count > 0 &&
                      (i == last || out.buckets.back().count + counts[parameter] > most);
    if (out.buckets.empty() || ends) out.begin_bucket(element_bytes);
    out.add(parameter, counts[parameter]);
  }
  return out;
}

}  // namespace tutti::training

namespace tutti::detail {

TUTTI_INLINE std::string line_about(training::bucket_sizes const& sizes) {
  return join({"buckets of ", sizes.first_bytes, ", ", sizes.bytes, " and ", sizes.last_bytes, " bytes"});
}

}  // namespace tutti::detail
