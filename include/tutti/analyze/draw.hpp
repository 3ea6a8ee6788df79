// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Draws a schedule, ranks against time, as text and as SVG.
#pragma once

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "tutti/analyze/simulate.hpp"
#include "tutti/core/text.hpp"

namespace tutti::analyze {

// Describes a step in one word: "3>" receives from rank 3, "c2" is the chunk, "+" combines it, "=" stores it, "!"
// completes it, ">1" sends to rank 1. Several peers or chunks: "c0-3", "6*>" (from six ranks).
inline std::string word(step const& t, int rank, shape s, int total_chunks) {
  auto const who = [&](peers const& p) {
    std::vector<int> others;
    for (int k = 0; k < p.count; ++k)
      if (int const q = p.at(k, s.ranks); q != rank) others.push_back(q);
    if (others.empty()) return std::string{};
    if (others.size() > 3) return std::to_string(others.size()) + "*";
    std::string out;
    for (int const q : others) {
      if (!out.empty()) out += ',';
      out += std::to_string(q);
    }
    return out;
  };
  auto const which = [&](region const& r) {
    int const n = r.what.count, first = r.what.at(0, total_chunks);
    if (n == 1) return detail::join({"c", first});
    return detail::join(
        {"c", first, r.what.run == 1 && r.what.stride != 1 ? ".." : "-", r.what.at(n - 1, total_chunks)});
  };
  std::string const from = who(t.from), to = who(t.to);
  std::string in, out;
  if (!t.from.empty()) {
    in = (from.empty() ? "" : from + ">") + which(t.keep);
    if (t.reduces()) in += "+";
    if (t.complete) in += "!";
    if (!t.reduces() && !t.complete && t.keep.where != space::none) in += "=";
  }
  if (t.forwards()) return to.empty() ? in : in + ">" + to;
  if (!to.empty()) out = which(t.give) + ">" + to;
  return in + (in.empty() || out.empty() ? "" : " ") + out;
}

// The events to draw: those of an execution in which a message takes one unit of time and everything else takes none.
class picture {
 public:
  template <step_function S>
  picture(S const& schedule, shape s) : shape_(s), lanes_(schedule.lanes(s)) {
    int const total = schedule.chunks(s);
    observer const watch{
        .on_step = [&](step_event const& e) { steps_.push_back({e, word(e.what, e.who.rank, s, total)}); },
        .on_message = [&](message_event const& e) { messages_.push_back(e); }};
    end_ = simulate(schedule, s, {.bytes = 0}, {.alpha = 1, .beta = 0, .gamma = 0}, &watch).seconds;
  }

  // A row for each rank (and lane, if there are several), a column for each unit of time in which a step ends.
  void text(std::ostream& to) const {
    std::size_t const columns = static_cast<std::size_t>(end_) + 1;
    std::size_t const rows = static_cast<std::size_t>(shape_.ranks * lanes_);
    std::vector<std::vector<std::string>> cells(rows, std::vector<std::string>(columns));
    std::vector<std::size_t> width(columns);
    for (std::size_t c = 0; c < columns; ++c) width[c] = std::to_string(c).size();
    for (drawn_step const& d : steps_) {
      std::size_t const column = static_cast<std::size_t>(d.event.end);
      std::string& cell = cells[static_cast<std::size_t>(d.event.who.rank * lanes_ + d.event.who.lane)][column];
      if (d.word.empty()) continue;
      cell += (cell.empty() ? "" : " ") + d.word;
      width[column] = std::max(width[column], cell.size());
    }
    std::size_t head = 0;
    for (std::size_t r = 0; r < rows; ++r) head = std::max(head, row_name(r).size());
    line(to, "time", head, width, [](std::size_t c) { return std::to_string(c); });
    for (std::size_t r = 0; r < rows; ++r)
      line(to, row_name(r), head, width, [&](std::size_t c) { return cells[r][c].empty() ? "." : cells[r][c]; });
  }

  // Ranks from top to bottom, time from left to right, an arrow for each message with its chunk, a colour for each chunk.
  void svg(std::ostream& to) const {
    double const across = 110, down = 44, left = 70, top = 34;
    double const width = left + across * std::max(end_, 1.0) + 40, height = top + down * (shape_.ranks - 1) + 40;
    auto const x = [&](double time) { return left + across * time; };
    auto const y = [&](int rank) { return top + down * rank; };
    to << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height << "\" width=\"" << width
       << "\" height=\"" << height << "\" font-family=\"sans-serif\" font-size=\"11\">\n"
       << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<defs><marker id=\"tip\" viewBox=\"0 0 6 6\" "
          "refX=\"6\" "
          "refY=\"3\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L6 3L0 6z\" "
          "fill=\"#444\"/></marker></defs>\n";
    for (int t = 0; t <= static_cast<int>(end_); ++t)
      to << "<line x1=\"" << x(t) << "\" y1=\"" << top - 12 << "\" x2=\"" << x(t) << "\" y2=\"" << height - 20
         << "\" stroke=\"#eee\"/><text x=\"" << x(t) << "\" y=\"" << top - 18
         << "\" text-anchor=\"middle\" fill=\"#888\">" << t << "</text>\n";
    for (int r = 0; r < shape_.ranks; ++r)
      to << "<line x1=\"" << x(0) << "\" y1=\"" << y(r) << "\" x2=\"" << x(end_) << "\" y2=\"" << y(r)
         << "\" stroke=\"#bbb\"/><text x=\"" << left - 12 << "\" y=\"" << y(r) + 4 << "\" text-anchor=\"end\">rank "
         << r << "</text>\n";
    for (message_event const& m : messages_) {
      std::string const colour = detail::join({"hsl(", (m.chunk * 137 + m.lane * 180) % 360, ",65%,42%)"});
      double const x1 = x(m.sent), y1 = y(m.from), x2 = x(m.arrived), y2 = y(m.to);
      to << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2 << "\" stroke=\"" << colour
         << "\" stroke-width=\"1.5\"" << (m.lane > 0 ? " stroke-dasharray=\"5 3\"" : "")
         << " marker-end=\"url(#tip)\"/><text x=\"" << x1 + 0.3 * (x2 - x1) + 4 << "\" y=\"" << y1 + 0.3 * (y2 - y1) - 3
         << "\" fill=\"" << colour << "\">" << m.chunk << "</text>\n";
    }
    for (drawn_step const& d : steps_)
      to << "<circle cx=\"" << x(d.event.end) << "\" cy=\"" << y(d.event.who.rank)
         << "\" r=\"3.5\" fill=\"#333\"><title>rank " << d.event.who.rank << ", lane " << d.event.who.lane << ", phase "
         << d.event.who.phase << ", step " << d.event.index << ": " << escaped(d.word) << "</title></circle>\n";
    to << "</svg>\n";
  }

 private:
  struct drawn_step {
    step_event event;
    std::string word;
  };

  std::string row_name(std::size_t row) const {
    int const r = static_cast<int>(row);
    return lanes_ > 1 ? detail::join({"rank ", r / lanes_, ", lane ", r % lanes_}) : detail::join({"rank ", r});
  }

  template <class Cell>
  static void line(std::ostream& to, std::string const& name, std::size_t head, std::vector<std::size_t> const& width,
                   Cell cell) {
    std::string out = name + std::string(head - name.size(), ' ');
    for (std::size_t c = 0; c < width.size(); ++c) {
      std::string const text = cell(c);
      out += "  " + text + std::string(width[c] - text.size(), ' ');
    }
    to << out.substr(0, out.find_last_not_of(' ') + 1) << '\n';
  }

  static std::string escaped(std::string const& text) {
    std::string out;
    for (char const c : text) out += c == '>' ? "&gt;" : std::string(1, c);
    return out;
  }

  shape shape_;
  int lanes_;
  double end_ = 0;
  std::vector<drawn_step> steps_;
  std::vector<message_event> messages_;
};

// Draws a schedule as text: a row for each rank, a column for each time. The reduce-scatter of a ring of three:
//
//   time    0     1        2
//   rank 0  c2>1  2>c1+>1  2>c0+!
//   rank 1  c0>2  0>c2+>2  0>c1+!
//   rank 2  c1>0  1>c0+>0  1>c2+!
template <step_function S>
void draw_text(std::ostream& to, S const& schedule, shape s) {
  picture(schedule, s).text(to);
}

// The same as an SVG picture, with a line for each message.
template <step_function S>
void draw_svg(std::ostream& to, S const& schedule, shape s) {
  picture(schedule, s).svg(to);
}

}  // namespace tutti::analyze
