// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definition of call/numbering.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/call/numbering.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/absence.hpp"

namespace tutti::detail {

TUTTI_INLINE std::string numbered_within(std::vector<int> const& group, std::string_view whole) {
  auto const keeps_its_number = [&](int const& rank) { return rank == &rank - group.data(); };
  if (std::ranges::all_of(group, keeps_its_number)) return std::string(whole);
  constexpr std::string_view begin = "; ranks are numbered within";
  constexpr std::size_t shown = 16;
  std::vector<int> const first(group.begin(),
                               group.begin() + static_cast<std::ptrdiff_t>(std::min(group.size(), shown)));
  return join({begin, " the group {", list_of(first), group.size() > shown ? ", ...}" : "}", whole.empty() ? "" : " of",
               whole.substr(std::min(whole.size(), begin.size()))});
}

}  // namespace tutti::detail
