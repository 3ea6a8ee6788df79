// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All ranks use the tuning table of rank 0, and meet where it does, as it tells them before their first call.
#pragma once

#include <string>
#include <string_view>

#include "tutti/launch/announce.hpp"
#include "tutti/launch/measure_links.hpp"

namespace tutti::detail {

// The message of rank 0: its head; what tells versions of tutti apart; and then either which of the shipped tables its processor
// takes, or the name of a table and its text. If rank 0 fails to load the table, the error follows the head, so that every rank throws.
struct table_message {
  enum class kind : char { built_in = 'b', table = 't', fault = 'f' };
  struct head {
    kind what;
    bool measures = false;  // links
    bool meets = false;     // the other ranks do, as settings::meets

    std::string_view bytes() const noexcept { return {reinterpret_cast<char const*>(this), sizeof *this}; }
  };

  [[gnu::cold]] static std::string make(program_table const& compiled, bool meets);
  [[gnu::cold]] static head read(std::string const& message, int rank, tuning& out);
};

// Called by all ranks before their first call. Rank 0 takes the file TUTTI_TUNING, else the table compiled into the
// program, else the usual file. Links are measured if TUTTI_TOPOLOGY asks for it and the ranks know their locations.
template <class Transport>
[[gnu::cold]] void agree_on_tuning(engine<Transport>& on, program_table const& compiled = {}) {
  if (on.ranks() == 1) return;
  std::string const message = announce(
      on, 0, on.rank() == 0 ? table_message::make(compiled, on.environment.meets) : std::string(), "tuning table");
  [[maybe_unused]] auto const head = table_message::read(message, on.rank(), on.tuned);
  if constexpr (knows_locations<Transport>)
    if (head.measures) on.tuned.take_links(measure_links(on));
  if constexpr (has_levels<Transport>) on.levels->tune_by(on.tuned);
}

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/launch/agree_impl.hpp"
#endif
