// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/schedule/draw.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/schedule/draw.hpp"

namespace tutti {
namespace detail {

// The place of a stage among those of its rank.
TUTTI_INLINE int local_stage(training::dynamic_pipeline_schedule const& schedule, training::pipeline_shape s,
                             int stage) {
  int out = 0;
  for (int before = 0; before < stage; ++before) out += schedule.rank_of(s, before) == schedule.rank_of(s, stage);
  return out;
}

TUTTI_INLINE std::string row_of_cells(std::string const& name, std::size_t head, std::vector<std::string> const& cells,
                                      std::size_t width) {
  std::string out = name + std::string(head - name.size(), ' ');
  for (std::string const& cell : cells) out += " " + cell + std::string(width - cell.size(), ' ');
  return out.substr(0, out.find_last_not_of(' ') + 1) + '\n';
}

}  // namespace detail

namespace training {

TUTTI_INLINE void draw_pipeline_text(std::ostream& to, dynamic_pipeline_schedule const& schedule, pipeline_shape s,
                                     pipeline_times const& times) {
  using tutti::detail::join;
  auto const column = [](double time) { return static_cast<std::size_t>(std::lround(time)); };
  pipeline_timeline const all = simulate_pipeline(schedule, s, times);
  std::vector<std::vector<std::string>> rows(static_cast<std::size_t>(s.ranks));
  std::size_t width = std::to_string(std::max<std::size_t>(column(all.end), 1) - 1).size();
  for (pipeline_event const& e : all.events) {
    std::string word = join({e.action.pass == pipeline_pass::forward ? "F" : "B", e.action.microbatch});
    if (schedule.stages(s) > s.ranks)
      word += static_cast<char>('a' + tutti::detail::local_stage(schedule, s, e.action.stage) % 26);
    width = std::max(width, word.size());
    auto& row = rows[static_cast<std::size_t>(e.rank)];
    row.resize(std::max(column(e.end), row.size()), ".");
    std::fill(row.begin() + std::lround(e.begin), row.begin() + std::lround(e.end), "--");
    if (column(e.begin) < row.size()) row[column(e.begin)] = word;
  }
  std::vector<std::string> header;
  for (std::size_t c = 0; c < column(all.end); ++c) header.push_back(std::to_string(c));
  std::size_t const head = join({"rank ", s.ranks - 1, " "}).size();
  to << tutti::detail::row_of_cells("time", head, header, width);
  for (std::size_t r = 0; r < rows.size(); ++r)
    to << tutti::detail::row_of_cells(join({"rank ", r}), head, rows[r], width);
}

TUTTI_INLINE void draw_pipeline_svg(std::ostream& to, dynamic_pipeline_schedule const& schedule, pipeline_shape s,
                                    pipeline_times const& times) {
  pipeline_timeline const all = simulate_pipeline(schedule, s, times);
  double const shortest = std::max(1e-9, std::min(times.forward, times.backward));
  double const across = 24 / shortest, down = 28, left = 60, top = 16, box = 22;
  double const width = left + across * all.end + 16, height = top + down * s.ranks + 16;
  to << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height << "\" width=\"" << width
     << "\" height=\"" << height << "\" font-family=\"sans-serif\" font-size=\"11\">\n"
     << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  for (int r = 0; r < s.ranks; ++r)
    to << "<text x=\"" << left - 10 << "\" y=\"" << top + down * r + 15 << "\" text-anchor=\"end\">rank " << r
       << "</text><rect x=\"" << left << "\" y=\"" << top + down * r << "\" width=\"" << across * all.end
       << "\" height=\"" << box << "\" fill=\"#f4f4f4\"/>\n";
  for (pipeline_event const& e : all.events) {
    bool const forward = e.action.pass == pipeline_pass::forward;
    int const lightness = std::min(85, 58 + 14 * tutti::detail::local_stage(schedule, s, e.action.stage));
    double const x = left + across * e.begin, y = top + down * e.rank, length = across * (e.end - e.begin);
    to << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << length << "\" height=\"" << box << "\" fill=\"hsl("
       << (forward ? 212 : 140) << ",55%," << lightness << "%)\" stroke=\"white\"><title>rank " << e.rank << ", step "
       << e.index << ": " << (forward ? "forward" : "backward") << " pass of microbatch " << e.action.microbatch
       << " at stage " << e.action.stage << ", from " << e.begin << " to " << e.end << "</title></rect><text x=\""
       << x + length / 2 << "\" y=\"" << y + 15 << "\" text-anchor=\"middle\" pointer-events=\"none\">"
       << e.action.microbatch << "</text>\n";
  }
  to << "</svg>\n";
}

}  // namespace training
}  // namespace tutti
