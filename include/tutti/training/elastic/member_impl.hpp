// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/elastic/member.hpp.
#pragma once

#include "tutti/core/enum_text.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/elastic/member.hpp"

namespace tutti::training {

TUTTI_INLINE std::string_view name(member_state state) {
  static constexpr char const* names[]{"healthy", "suspected", "failed", "recovering"};
  return tutti::detail::text_of<member_state::recovering>(state, names, "unknown");
}

TUTTI_INLINE std::string transition::text() const {
  return tutti::detail::join({"member ", who.number, " (rank ", who.rank, "), ", name(before), " -> ", name(who.state),
                              ", after step ", step, why.empty() ? "" : ": ", why});
}

}  // namespace tutti::training
