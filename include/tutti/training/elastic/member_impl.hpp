// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/elastic/member.hpp.
#pragma once

#include "tutti/core/text.hpp"
#include "tutti/training/elastic/member.hpp"

namespace tutti::training {

TUTTI_INLINE std::string_view name(member_state state) {
  switch (state) {
    case member_state::healthy: return "healthy";
    case member_state::suspected: return "suspected";
    case member_state::failed: return "failed";
    case member_state::recovering: return "recovering";
  }
  return "unknown";
}

TUTTI_INLINE std::string transition::text() const {
  return tutti::detail::join({"member ", who.number, " (rank ", who.rank, "), ", name(before), " -> ", name(who.state),
                              ", after step ", step, why.empty() ? "" : ": ", why});
}

}  // namespace tutti::training
