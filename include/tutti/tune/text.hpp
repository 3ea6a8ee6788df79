// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tuning tables as text, one rule per line: tutti-tune writes it, rank 0 sends it to the others, and a person may edit
// it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/tune/table.hpp"

namespace tutti::detail {

// The first lines of a table: as tutti writes it, with a last line, without which it was cut off; and as a person may write it.
inline constexpr std::string_view complete_version = "tutti-tuning 2", tuning_version = "tutti-tuning 1";

struct owned_table {
  std::string machine, date, command;
  costs apart, crowded;
  std::vector<rule> rules;
  link_times links{};
  device_limits devices{};

  tuning_table view() const {
    return {.machine = machine,
            .date = date,
            .command = command,
            .apart = apart,
            .crowded = crowded,
            .rules = rules,
            .links = links,
            .devices = devices};
  }
};

[[gnu::cold]] std::string bytes_up_to(std::size_t limit);
[[gnu::cold]] std::string to_text(rule const& r);
[[gnu::cold]] std::string to_text(costs const& c);
[[gnu::cold]] std::string to_text(tuning_table const& t);

// The table that a program passes to init, if any. One that passes none does not compile the functions that write a table as text.
struct program_table {
  program_table() = default;
  program_table(tuning_table const& own) : table(&own), write([](tuning_table const& t) { return to_text(t); }) {}

  tuning_table const* table = nullptr;
  std::string (*write)(tuning_table const&) = nullptr;
};

// Throws bad_argument with the line and the source (the name of a file).
[[gnu::cold]] owned_table parse_table(std::string_view text, std::string_view source);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/tune/text_impl.hpp"
#endif
