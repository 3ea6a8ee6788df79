// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of docs/collectives.md says which algorithm serves which collective, as the schedules do.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/algorithm/registry.hpp"

using namespace tutti;

namespace {

// The cells of a row, without blanks and backticks; none if the line is no row.
std::vector<std::string> cells_of(std::string const& line) {
  std::vector<std::string> out;
  for (std::size_t begin = line.find('|'), end; begin != line.npos && (end = line.find('|', begin + 1)) != line.npos;
       begin = end) {
    out.emplace_back();
    for (char const c : line.substr(begin + 1, end - begin - 1))
      if (c != ' ' && c != '`') out.back() += c;
  }
  return out;
}

// Whether a column is about a collective.
bool covers(std::string_view column, collective c) {
  if (column == "scans") return detail::is_prefix(c);
  if (column == "gather,scatter") return c == collective::gather || c == collective::scatter;
  return column == name(c);
}

// A cell of the table: the same for all collectives of its column, or a sign for each.
std::string expected(algorithm_id id, std::string_view column) {
  std::string out;
  for (collective const c : every_collective) {
    if (!covers(column, c)) continue;
    auto const schedule = properties_of(id, c);
    out += !schedule ? '-' : schedule.needs_commutative ? 'c' : 'x';
  }
  if (out.find_first_not_of(out[0]) != out.npos) return out;
  return out[0] == '-' ? "" : out.substr(0, 1);
}

}  // namespace

TEST_CASE("the table of algorithms and collectives") {
  std::ifstream page(TUTTI_SOURCE "/docs/collectives.md");
  std::vector<std::string> columns;
  std::map<std::string, std::vector<std::string>> rows;
  for (std::string line; std::getline(page, line);) {
    auto const cells = cells_of(line);
    if (line.starts_with("| algorithm | all_reduce | reduce |")) columns = cells;
    else if (!columns.empty() && cells.size() == columns.size()) rows[cells[0]] = cells;
    else if (!columns.empty()) break;
  }
  REQUIRE(columns.size() > 1);
  for (collective const c : every_collective) {
    CAPTURE(name(c));
    CHECK(std::ranges::any_of(columns, [&](std::string const& column) { return covers(column, c); }));
  }
  for (std::string_view const algorithm : algorithms::names) {
    CAPTURE(algorithm);
    REQUIRE(rows.contains(std::string(algorithm)));
    auto const& row = rows.at(std::string(algorithm));
    for (std::size_t i = 1; i < columns.size(); ++i) {
      CAPTURE(columns[i]);
      CHECK(row[i] == expected(find_algorithm(algorithm), columns[i]));
    }
  }
}
