// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Steps that all ranks take together, such as making objects that belong together: they succeed on all ranks or on none.
#pragma once

#include <cstddef>
#include <exception>
#include <source_location>
#include <span>
#include <string_view>
#include <vector>

#include "tutti/collective/all_gather.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/function_ref.hpp"
#include "tutti/core/text.hpp"

namespace tutti::detail {

// Gathers a card that each rank writes about itself, at all ranks.
template <class Card, transport Transport>
std::vector<Card> exchange_cards(communicator<Transport>& comm, Card const& mine, std::source_location where) {
  std::vector<Card> all(static_cast<std::size_t>(comm.size()));
  if (comm.size() == 1) all[0] = mine;
  else all_gather(comm, std::span(&mine, 1), all, {}, where);
  return all;
}

struct failed_attempt {
  bool failed = false;
  char what[512]{}, way_out[256]{};
};

// Calls attempt() at every rank. If any of them throws, all ranks throw error: system, which says that the lowest of those ranks
// `cannot` do this, and why. `way_out`: better than those of the errors in attempt().
template <transport Transport>
[[gnu::cold]] void all_or_none(communicator<Transport>& comm, std::string_view cannot, std::source_location where,
                               function_ref<void()> attempt, std::string_view way_out = "") {
  failed_attempt mine{};
  write_terminated(mine.way_out, way_out.empty() ? "check the output of that rank" : way_out);
  try {
    attempt();
  } catch (error const& e) {
    mine.failed = true;
    write_terminated(mine.what, e.happened());
    if (way_out.empty() && !e.way_out().empty()) write_terminated(mine.way_out, e.way_out());
  } catch (std::exception const& e) {
    mine.failed = true;
    write_terminated(mine.what, e.what());
  }
  auto const all = exchange_cards(comm, mine, where);
  for (std::size_t q = 0; q < all.size(); ++q)
    if (all[q].failed)
      throw error({.code = error_code::system,
                   .rank = comm.rank(),
                   .peer = static_cast<int>(q),
                   .what = join({"rank ", q, " cannot ", cannot, ": ", all[q].what}),
                   .way_out = all[q].way_out,
                   .where = where});
}

}  // namespace tutti::detail
