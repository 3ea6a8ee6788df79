// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which nodes two levels cannot serve.
#pragma once

#include <optional>
#include <string>

#include "tutti/core/nodes.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/kernel/combine.hpp"

namespace tutti::detail {

// Why ranks on such nodes cannot be served, if so; continues "because".
[[gnu::cold]] inline std::optional<std::string> objection_to_levels(node_map const& nodes) {
  if (nodes.even() && nodes.size(0) >= 2 && nodes.size(0) <= max_destinations) return {};
  return join({"the ranks are on ", nodes.text(),
               ", and two levels need nodes that have the same number of ranks, from 2 to ", max_destinations});
}

}  // namespace tutti::detail
