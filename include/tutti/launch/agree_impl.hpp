// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of launch/agree.hpp.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include "tutti/core/text.hpp"
#include "tutti/launch/agree.hpp"
#include "tutti/transport/segment.hpp"
#include "tutti/tune/find.hpp"
#include "tutti/tune/shipped.hpp"

namespace tutti::detail {

TUTTI_INLINE std::string table_message::make(program_table const& compiled, bool meets) {
  try {
    head start{kind::table, wants_link_times(), meets};
    std::string const version = join({segment_layout, "\n"});
    bool const own = compiled.table != nullptr;
    if (auto const file = find_tuning_file(!own)) {
      parse_table(file->text, file->path);
      return join({start.bytes(), version, file->path, "\n", file->text});
    }
    if (own) return join({start.bytes(), version, "the program's table\n", compiled.write(*compiled.table)});
    start.what = kind::built_in;
    return join({start.bytes(), version, find_shipped_table()});
  } catch (std::exception const& e) {
    std::string_view what = e.what();
    if (what.starts_with("tutti: ")) what.remove_prefix(7);
    return join({head{kind::fault}.bytes(), what});
  }
}

TUTTI_INLINE table_message::head table_message::read(std::string const& message, int rank, tuning& out) {
  head start{};
  std::memcpy(&start, message.data(), sizeof start);
  std::string_view const text = std::string_view(message).substr(sizeof start);
  if (start.what == kind::fault) throw error({.code = error_code::bad_argument, .rank = rank, .what = join({text})});
  if (std::strtoull(text.data(), nullptr, 10) != segment_layout)
    throw error({.code = error_code::mismatch,
                 .rank = rank,
                 .peer = 0,
                 .what = join({"rank 0 was built with another version of tutti than rank ", rank}),
                 .way_out = "build all programs of a job with the same tutti"});
  std::string_view const rest = text.substr(text.find('\n') + 1);
  if (start.what == kind::built_in) {
    std::size_t const which = static_cast<std::size_t>(std::atoi(rest.data()));
    out = tuning(shipped_tables.at(which).table);
  } else {
    std::size_t const end = rest.find('\n');
    std::string source(rest.substr(0, end));
    auto table_of_rank_0 = parse_table(rest.substr(end + 1), source);
    out = tuning(std::move(table_of_rank_0), std::move(source));
  }
  out.meets = start.meets;
  return start;
}

}  // namespace tutti::detail
