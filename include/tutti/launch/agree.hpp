// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tuning table of rank 0 counts for all ranks: it tells them before their first call.
#pragma once

#include <string>

#include "tutti/launch/announce.hpp"
#include "tutti/launch/measure_links.hpp"

namespace tutti::detail {

// What rank 0 says: a letter, another that says whether to measure links, the name of the table, its text. Ranks that can't
// have it must fail as well.
struct table_news {
  static constexpr char built_in = 'b', table = 't', fault = 'f', measure = 'm', go_on = '-';

  [[gnu::cold]] static std::string make(tuning_table const& compiled);
  [[gnu::cold]] static void read(std::string const& text, int rank, tuning& out);
  static bool asks_for_link_times(std::string const& text) { return text[1] == measure; }
};

// Called by all ranks, before their first call. Rank 0 looks for TUTTI_TUNING, then what the program has compiled in,
// then the usual file; and whether TUTTI_TOPOLOGY wants links to be measured, by ranks that know where they are.
template <class Transport>
[[gnu::cold]] void agree_on_tuning(engine<Transport>& g, tuning_table const& compiled = shipped) {
  if (g.ranks() == 1) return;
  std::string const news = announce(g, 0, g.rank() == 0 ? table_news::make(compiled) : std::string(), "tuning table");
  table_news::read(news, g.rank(), g.tuned);
  if constexpr (knows_locations<Transport>)
    if (table_news::asks_for_link_times(news)) g.tuned.take_links(measure_links(g));
  if constexpr (has_levels<Transport>) g.levels->tune_by(g.tuned);
}

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/launch/agree_impl.hpp"
#endif
