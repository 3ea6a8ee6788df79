// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which nodes two levels cannot serve, and how an error of one level is told to all ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/kernel/combine.hpp"
#include "tutti/transport/absence.hpp"
#include "tutti/transport/nodes.hpp"

namespace tutti::detail {

// Why ranks on such nodes cannot be served, if so; continues "because".
[[gnu::cold]] inline std::optional<std::string> objection_to_levels(node_map const& nodes) {
  if (nodes.even() && nodes.size(0) >= 2 && nodes.size(0) <= max_destinations) return {};
  return join({"the ranks are on ", nodes.text(),
               ", and two levels need nodes that have the same number of ranks, from 2 to ", max_destinations});
}

// What happened in the part of a call that is carried out between `members`, who are numbered from 0 there.
[[gnu::cold]] inline std::string in_part(std::vector<int> const& members, error const& e) {
  return join({"in its part between the ranks {", list_of(members), "}, renumbered from 0: ", e.happened()});
}

}  // namespace tutti::detail
