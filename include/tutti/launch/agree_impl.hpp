// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of launch/agree.hpp.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <utility>

#include "tutti/core/text.hpp"
#include "tutti/launch/agree.hpp"
#include "tutti/transport/segment.hpp"
#include "tutti/tune/find.hpp"
#include "tutti/tune/shipped.hpp"

namespace tutti::detail {

TUTTI_INLINE std::string table_news::make(program_table const& compiled, bool meets) {
  try {
    char const wishes[] = {wants_link_times() ? measure : go_on, meets ? meet : go_on, '\0'};
    std::string const head = join({wishes, segment_layout, "\n"});
    bool const own = compiled.table != nullptr;
    if (auto const file = find_tuning_file(!own)) {
      parse_table(file->text, file->path);
      return join({"t", head, file->path, "\n", file->text});
    }
    return own ? join({"t", head, "the program's table\n", compiled.write(*compiled.table)})
               : join({"b", head, find_shipped_table()});
  } catch (std::exception const& e) {
    std::string_view what = e.what();
    if (what.starts_with("tutti: ")) what.remove_prefix(7);
    return join({"f", what});
  }
}

TUTTI_INLINE void table_news::read(std::string const& text, int rank, tuning& out) {
  if (text.front() == fault)
    throw error({.code = error_code::bad_argument, .rank = rank, .what = join({std::string_view(text).substr(1)})});
  std::size_t const head = text.find('\n');
  if (std::strtoull(text.c_str() + 3, nullptr, 10) != segment_layout)
    throw error({.code = error_code::mismatch,
                 .rank = rank,
                 .peer = 0,
                 .what = join({"rank 0 was built with another version of tutti than rank ", rank}),
                 .way_out = "build all programs of a job with the same tutti"});
  std::string_view const rest = std::string_view(text).substr(head + 1);
  if (text.front() == built_in) {
    std::size_t const which = static_cast<std::size_t>(std::atoi(rest.data()));
    out = tuning(shipped_tables.at(which).table);
  } else {
    std::size_t const end = rest.find('\n');
    std::string source(rest.substr(0, end));
    auto table_of_rank_0 = parse_table(rest.substr(end + 1), source);
    out = tuning(std::move(table_of_rank_0), std::move(source));
  }
  out.meets = text[2] == meet;
}

}  // namespace tutti::detail
