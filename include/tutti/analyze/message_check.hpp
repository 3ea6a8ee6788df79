// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks that a message, or the contribution of a rank to its own result, is the slice that is due.
#pragma once

#include <cstddef>
#include <string>

#include "tutti/algorithm/cursor.hpp"
#include "tutti/analyze/contract.hpp"
#include "tutti/analyze/result_check.hpp"
#include "tutti/analyze/step_check.hpp"
#include "tutti/analyze/symbolic_channels.hpp"
#include "tutti/analyze/symbolic_memory.hpp"

namespace tutti::analyze {

// Throws a flaw if a message of rank `peer` is not the slice `part`, whose elements belong to the places `due`.
inline void check_message(symbolic_channels::message const& found, int peer, tutti::detail::message_slice const& part,
                          places const& due, collective what, int chunk_length) {
  auto const label = [&](int chunk, int element) { return label_of(chunk, element, chunk_length); };
  auto const count = static_cast<std::size_t>(found.count);
  for (std::size_t i = 0; i < due.size() && i < count; ++i) {
    symbol const& s = found.symbols[i];
    if ((s.chunk != due[i].chunk && !renumbers(what)) || s.element != due[i].element)
      throw flaw{"expects " + label(due[i].chunk, due[i].element) + " from rank " + std::to_string(peer) +
                 ", which sent " + label(s.chunk, s.element)};
  }
  if (count != part.range.count || found.more != part.more)
    throw flaw{"expects a slice of " + count_of(static_cast<int>(part.range.count), "element") +
               (part.more ? " and more" : "") + " from rank " + std::to_string(peer) + ", which sent " +
               std::to_string(found.count) + (found.more ? " and more" : "")};
}

// Throws a flaw if the elements `own` that a rank contributes itself do not belong to the places `due`.
inline void check_own(places const& own, places const& due, collective what) {
  if (own.size() != due.size())
    throw flaw{"contributes " + count_of(static_cast<int>(own.size()), "element") + " to " +
               std::to_string(due.size())};
  for (std::size_t i = 0; i < due.size(); ++i)
    if (own[i].chunk != due[i].chunk && !renumbers(what))
      throw flaw{"takes its own chunk " + std::to_string(own[i].chunk) + " for chunk " + std::to_string(due[i].chunk)};
}

}  // namespace tutti::analyze
