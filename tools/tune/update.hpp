// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Puts what has been measured into the table that is there. What has not been measured stays.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "../complain.hpp"
#include "rules.hpp"
#include "session.hpp"
#include "tutti/core/file.hpp"
#include "tutti/tune/find.hpp"
#include "tutti/tune/shipped.hpp"
#include "tutti/tune/text.hpp"
#include "write.hpp"

namespace tuning {

inline tutti::detail::owned_table built_in_table() {
  std::size_t const which = tutti::detail::find_shipped_table();
  return tutti::detail::parse_table(to_text(tutti::detail::shipped_tables.at(which).table), "the built-in table");
}

// The table in this file, if there is one. Throws tutti::error if it cannot be read.
inline std::optional<tutti::detail::owned_table> table_at(std::string const& path) {
  auto const text = tutti::detail::read_file(path);
  if (!text) return {};
  return tutti::detail::parse_table(*text, path);
}

inline bool is_of_this_machine(tutti::detail::owned_table const& table) {
  return table.machine.empty() || table.machine == tutti::detail::this_machine();
}

// The table in this file, if it is of this machine and can be read; else the built-in one.
inline tutti::detail::owned_table table_to_update(settings const& s) {
  try {
    if (auto there = table_at(s.output)) {
      if (is_of_this_machine(*there)) return *std::move(there);
      complain("{}: replaces the table of another machine, {}\n", s.program, there->machine);
    }
  } catch (tutti::error const& e) {
    complain("{}: {}; the table is replaced, and any limits for devices that it contained are lost\n", s.program,
             e.happened());
  }
  return built_in_table();
}

// The commands that gave the rules of a table, each once, the latest last.
inline std::string commands_of(std::string_view before, std::string const& now) {
  std::string out;
  while (!before.empty()) {
    std::string_view const one = before.substr(0, before.find("; "));
    if (one != now) out += fmt::format("{}; ", one);
    before.remove_prefix(std::min(before.size(), one.size() + 2));
  }
  return out + now;
}

// Notes what a table is of, and the links that were measured just now.
inline void sign(tutti::detail::owned_table& table, tutti::detail::link_times const& measured,
                 std::string const& command) {
  table.machine = tutti::detail::this_machine();
  table.date = today();
  table.command = commands_of(table.command, command);
  for (tutti::detail::distance const d : tutti::detail::every_distance)
    if (measured[d].known()) table.links[d] = measured[d];
}

// Whether both conditions can only hold for ranks that share memory.
inline bool in_shared_memory(tutti::detail::reach a, tutti::detail::reach b) {
  auto const shares = [](tutti::detail::reach r) {
    return r == tutti::detail::reach::any || r == tutti::detail::reach::pulls || r == tutti::detail::reach::closed;
  };
  return shares(a) && shares(b);
}

// Inserts the rules before those of the table, in which the first match decides, and removes those that can no longer match. Rules that
// end at the largest size that was measured leave larger messages to the old ones.
inline void put_before(std::vector<tutti::detail::rule>& rules, std::vector<tutti::detail::rule> const& measured) {
  std::erase_if(rules, [&](tutti::detail::rule const& old) {
    return std::ranges::any_of(measured, [&](tutti::detail::rule const& r) {
      return r.up_to >= old.up_to && (old.memory == r.memory || in_shared_memory(old.memory, r.memory)) &&
             old.what == r.what && r.min_ranks <= old.min_ranks && old.max_ranks <= r.max_ranks &&
             (old.cores == r.cores || r.cores == tutti::detail::occupancy::any);
    });
  });
  rules.insert(rules.begin(), measured.begin(), measured.end());
}

// The rules from these results; if their size was limited, up to twice the largest one.
inline std::vector<tutti::detail::rule> measured_rules(settings const& s, std::vector<result> const& results) {
  std::vector<tutti::detail::rule> out = rules_of(results);
  if (s.max >= settings{}.max) return out;
  for (tutti::detail::rule& r : out)
    if (r.up_to == tutti::detail::rule::no_limit && r.what != tutti::collective::barrier)
      r.up_to = tutti::detail::rule::size_field(2 * std::size_t{r.measured_at});
  return out;
}

}  // namespace tuning
