// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How an error of a part of a call is told to ranks outside this part.
#pragma once

#include <string>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/absence.hpp"

namespace tutti::detail {

// What happened in a part between `members`, who are numbered from 0 there.
[[gnu::cold]] inline std::string in_part(std::vector<int> const& members, error const& e) {
  return join({"in its part between the ranks {", list_of(members), "}, renumbered from 0: ", e.happened()});
}

}  // namespace tutti::detail
