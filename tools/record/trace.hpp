// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Joins traces, and draws them.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "read.hpp"

namespace record {

inline std::vector<json> events_of(std::vector<source> const& sources) {
  std::vector<json> out;
  for (auto const& [name, text] : sources) {
    json file = parse_file(text);
    if (is_record(file))
      throw std::runtime_error(
          fmt::format("{} is a flight record, not a trace: read it with `tutti-record show`", name));
    json* const trace = events_in(file);
    if (trace == nullptr || !std::ranges::all_of(*trace, [](json const& event) { return event.is_object(); }))
      throw std::runtime_error(
          fmt::format("{} is not a trace: this reads the files that ranks write if TUTTI_TRACE is set", name));
    for (json& event : *trace) out.push_back(std::move(event));
  }
  return out;
}

inline std::string joined(std::vector<json> const& events) {
  return json{{"traceEvents", events}, {"displayTimeUnit", "ns"}}.dump() + "\n";
}

// A call in a trace, in microseconds.
struct traced_call {
  std::string name;
  int rank, group;
  double begin, end;
};

inline std::vector<traced_call> calls_of(std::vector<json> const& events) {
  auto const number = [](json const& value) {
    double const out = value.get<double>();
    if (!(std::abs(out) < 1e18)) throw std::runtime_error("a time in these traces is out of range");
    return out;
  };
  auto const small = [&](json const& value) {
    return static_cast<int>(std::clamp(number(value), 0.0, double{std::numeric_limits<int>::max()}));
  };
  std::vector<traced_call> out;
  try {
    for (json const& e : events)
      if (double const begin = e.at("ph") == "X" ? number(e.at("ts")) : 0; e.at("ph") == "X")
        out.push_back({e.at("name").get<std::string>(), small(e.at("pid")), small(e.at("tid")), begin,
                       begin + std::max(0.0, number(e.at("dur")))});
  } catch (json::exception const&) {
    throw std::runtime_error("an event in these traces lacks a field, or has one of the wrong type");
  }
  if (out.empty()) throw std::runtime_error("these traces contain no calls");
  return out;
}

inline std::string escaped(std::string_view text) {
  std::string out;
  for (char const c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '&') out += "&amp;";
    else out += c;
  }
  return out;
}

struct picture {
  std::string svg;
  double milliseconds;
  std::size_t lanes;
};

// Draws time from left to right in milliseconds, with a lane for each communicator of each rank that has calls in this time, and a
// colour for each collective. Begin and length are in milliseconds; a length of 0 goes to the end.
inline picture draw(std::vector<traced_call> const& calls, double begin, double length) {
  std::map<std::pair<int, int>, int> lanes;
  std::map<std::string, int> names;
  double first = std::numeric_limits<double>::max(), last = std::numeric_limits<double>::lowest();
  for (traced_call const& c : calls) first = std::min(first, c.begin), last = std::max(last, c.end);
  double const from = first + begin * 1e3, until = length > 0 ? std::min(last, from + length * 1e3) : last;
  if (!(begin >= 0 && length >= 0 && from <= last))
    throw std::runtime_error(
        fmt::format("nothing to draw from {:g} ms on: the traces last {:.6g} ms", begin, (last - first) / 1e3));
  std::vector<traced_call> seen;
  std::ranges::copy_if(calls, std::back_inserter(seen),
                       [&](traced_call const& c) { return c.end >= from && c.begin <= until; });
  for (traced_call const& c : seen) lanes[{c.rank, c.group}] = names[c.name] = 0;
  int count = 0;
  for (auto& lane : lanes) lane.second = count++;
  count = 0;
  for (auto& name : names) name.second = count++;
  double const left = 110, width = 1000, right = 60, height = 26, top = 40;
  double const scale = width / std::max(until - from, 1e-3);
  auto const hue = [&](std::string const& name) { return names.at(name) * 360 / static_cast<int>(names.size()); };
  double const bottom = top + height * static_cast<double>(lanes.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      left + width + right, bottom + 30);
  double x = left;
  for (auto const& [name, number] : names) {
    svg += fmt::format(
        "<rect x=\"{}\" y=\"10\" width=\"12\" height=\"12\" fill=\"hsl({},60%,60%)\"/>"
        "<text x=\"{}\" y=\"20\">{}</text>\n",
        x, hue(name), x + 16, escaped(name));
    x += 40 + 7.0 * static_cast<double>(name.size());
  }
  for (auto const& [lane, row] : lanes)
    svg += fmt::format("<text x=\"4\" y=\"{}\">rank {}{}</text>\n", top + height * row + 17, lane.first,
                       lane.second == 0 ? "" : fmt::format(", group {}", lane.second));
  for (traced_call const& c : seen) {
    double const a = std::max(c.begin, from), b = std::min(c.end, until);
    svg += fmt::format("<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"hsl({},60%,60%)\"/>\n",
                       left + (a - from) * scale, top + height * lanes.at({c.rank, c.group}) + 3,
                       std::max((b - a) * scale, 0.3), height - 6, hue(c.name));
  }
  for (int tick = 0; tick <= 10; ++tick)
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{:.6g} ms</text>\n", left + width * tick / 10,
                       bottom + 20, begin + (until - from) * tick / 1e4);
  return {svg + "</svg>\n", (until - from) / 1e3, lanes.size()};
}

}  // namespace record
