// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of launch/measure_links.hpp.
#pragma once

#include <string_view>

#include "tutti/core/environment.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/launch/measure_links.hpp"

namespace tutti::detail {

TUTTI_INLINE bool wants_link_times() {
  std::string_view const text = environment_variable("TUTTI_TOPOLOGY");
  if (text.empty()) return false;
  if (text == "measure") return true;
  throw error({.code = error_code::bad_argument,
               .what = join({"TUTTI_TOPOLOGY=\"", text, "\" is not known"}),
               .way_out = "set it to measure, or unset it"});
}

TUTTI_INLINE std::optional<std::pair<int, int>> pair_at(distance d, std::vector<location> const& places) {
  for (std::size_t a = 0; a < places.size(); ++a)
    for (std::size_t b = a + 1; b < places.size(); ++b) {
      distance const found = distance_between(places[a], places[b]);
      if (found == d || (d == distance::messages && through_memory(found)))
        return std::pair(static_cast<int>(a), static_cast<int>(b));
    }
  return {};
}

}  // namespace tutti::detail
