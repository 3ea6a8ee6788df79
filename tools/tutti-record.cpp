// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads flight records and finds the ranks that are behind; joins traces and draws them.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "command_line.hpp"

namespace {

using json = nlohmann::json;

std::string text_of(std::string const& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(fmt::format("cannot read {}", path));
  return {std::istreambuf_iterator<char>(file), {}};
}

// The state of a rank, from its own record or from what its peers observed.
struct state {
  std::uint64_t called = 0, finished = 0;
  std::map<std::uint64_t, json> calls;
  std::string awaits;          // the message that peers saw it wait for
  std::optional<json> record;  // its own

  std::string doing() const {
    if (called == 0) return "has not made a call";
    auto const call = calls.find(called);
    std::string const what = call == calls.end() ? "" : ", " + call->second.at("call").get<std::string>();
    std::string const where = call != calls.end() && call->second.contains("where")
                                  ? fmt::format(" ({})", call->second.at("where").get<std::string>())
                                  : "";
    return fmt::format("{} call #{}{}{}", finished >= called ? "has completed" : "is in", called, what, where);
  }
};

std::vector<state> states_of(std::vector<std::string> const& paths) {
  std::vector<state> out;
  for (std::string const& path : paths) {
    try {
      json const record = json::parse(text_of(path));
      auto const ranks = record.at("ranks").get<std::size_t>();
      if (out.empty()) out.resize(ranks);
      if (out.size() != ranks)
        throw std::runtime_error(
            fmt::format("its communicator has {} ranks, but that of the other records has {}", ranks, out.size()));
      state& own = out.at(record.at("rank").get<std::size_t>());
      own.record = record;
      for (json const& call : record.at("calls")) {
        auto const number = call.at("sequence").get<std::uint64_t>();
        own.called = std::max(own.called, number);
        if (call.at("ended").get<bool>()) own.finished = std::max(own.finished, number);
        own.calls[number] = call;
      }
      for (json const& peer : record.at("peers")) {
        state& other = out.at(peer.at("rank").get<std::size_t>());
        auto const called = peer.at("called").get<std::uint64_t>();
        other.called = std::max(other.called, called);
        other.finished = std::max(other.finished, peer.at("finished").get<std::uint64_t>());
        if (peer.contains("call")) other.calls.try_emplace(called, peer);
        if (peer.contains("awaits")) other.awaits = peer.at("awaits").get<std::string>();
      }
    } catch (std::exception const& e) {
      throw std::runtime_error(fmt::format("{} is not a flight record: {}", path, e.what()));
    }
  }
  return out;
}

// Prints the first recorded call in which ranks disagree.
void print_disagreement(std::vector<state> const& ranks) {
  std::map<std::uint64_t, std::map<std::uint32_t, std::vector<std::size_t>>> who;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (auto const& [number, call] : ranks[r].calls)
      who[number][call.at("fingerprint").get<std::uint32_t>()].push_back(r);
  for (auto const& [number, parties] : who) {
    if (parties.size() == 1) continue;
    fmt::print("ranks disagree in call #{}:\n", number);
    for (auto const& [fingerprint, members] : parties)
      fmt::print("  ranks {}: {}\n", fmt::join(members, ", "),
                 ranks[members.front()].calls.at(number).at("call").get<std::string>());
    return;
  }
}

// Prints the sends and receives that have not completed, from the rank's own record or from what its peers observed.
void print_messages(std::size_t rank, state const& s) {
  if (!s.record) {
    if (!s.awaits.empty()) fmt::print("rank {} is waiting in {}\n", rank, s.awaits);
    return;
  }
  for (json const& m : s.record->value("messages", json::array()))
    if (!m.at("ended").get<bool>())
      fmt::print("rank {} has not completed {} ({})\n", rank, m.at("message").get<std::string>(),
                 m.at("where").get<std::string>());
}

void show(std::vector<std::string> const& paths) {
  auto const ranks = states_of(paths);
  for (std::size_t r = 0; r < ranks.size(); ++r)
    fmt::print("rank {} {}{}\n", r, ranks[r].doing(), ranks[r].record ? "" : " (no record of this rank)");
  for (std::size_t r = 0; r < ranks.size(); ++r) print_messages(r, ranks[r]);
  auto const latest = std::ranges::max_element(ranks, {}, &state::called)->called;
  std::vector<std::size_t> behind;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (ranks[r].called < latest) behind.push_back(r);
  if (behind.size() == 1) fmt::print("behind: rank {} has not reached call #{}\n", behind[0], latest);
  else if (!behind.empty()) fmt::print("behind: ranks {} have not reached call #{}\n", fmt::join(behind, ", "), latest);
  else if (std::ranges::all_of(ranks, [&](state const& s) { return s.finished == latest; }))
    fmt::print("no rank is behind: all have completed call #{}\n", latest);
  else fmt::print("no rank is behind: all have reached call #{}\n", latest);
  print_disagreement(ranks);
  for (state const& s : ranks)
    if (s.record) {
      fmt::print("rank {} reports: {}\n", s.record->at("rank").get<int>(), s.record->at("reason").get<std::string>());
      break;
    }
}

// A trace is incomplete if its rank was killed; then its events up to the last complete one are used.
json events_of(std::string const& path) {
  std::string text = text_of(path);
  std::size_t const last = text.rfind("},\n");
  if (text.empty() || text.front() != '[' || last == std::string::npos)
    throw std::runtime_error(fmt::format("{} is not a trace written by tutti", path));
  text.resize(last + 1);
  return json::parse(text + "]");
}

std::vector<json> events_of_all(std::vector<std::string> const& paths) {
  std::vector<json> out;
  for (std::string const& path : paths)
    for (json& event : events_of(path)) out.push_back(std::move(event));
  return out;
}

void write(std::string const& path, std::string const& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw std::runtime_error(fmt::format("cannot write {}", path));
}

void join(std::vector<std::string> const& paths, std::string const& to) {
  auto const all = events_of_all(paths);
  write(to, json{{"traceEvents", all}, {"displayTimeUnit", "ns"}}.dump() + "\n");
  fmt::print("wrote {} events of {} ranks to {}; open it at https://ui.perfetto.dev\n", all.size(), paths.size(), to);
}

// Draws time from left to right in milliseconds, with a lane for each communicator of each rank and a colour for each collective.
void draw(std::vector<std::string> const& paths, std::string const& to, double begin, double length) {
  auto const all = events_of_all(paths);
  std::map<std::pair<int, int>, int> lanes;
  std::map<std::string, int> names;
  double first = std::numeric_limits<double>::max(), last = 0;
  for (json const& e : all) {
    if (e.at("ph") != "X") continue;
    lanes[{e.at("pid"), e.at("tid")}] = 0;
    names[e.at("name")] = 0;
    double const ts = e.at("ts"), duration = e.at("dur");
    first = std::min(first, ts), last = std::max(last, ts + duration);
  }
  if (lanes.empty()) throw std::runtime_error("these traces contain no calls");
  int count = 0;
  for (auto& lane : lanes) lane.second = count++;
  count = 0;
  for (auto& name : names) name.second = count++;
  double const from = first + begin * 1e3, until = length > 0 ? std::min(last, from + length * 1e3) : last;
  double const left = 110, width = 1000, height = 26, top = 40, scale = width / std::max(until - from, 1e-3);
  auto const hue = [&](std::string const& name) { return names.at(name) * 360 / static_cast<int>(names.size()); };
  double const bottom = top + height * static_cast<double>(lanes.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      left + width + 20, bottom + 30);
  double x = left;
  for (auto const& [name, number] : names) {
    svg += fmt::format(
        "<rect x=\"{}\" y=\"10\" width=\"12\" height=\"12\" fill=\"hsl({},60%,60%)\"/>"
        "<text x=\"{}\" y=\"20\">{}</text>\n",
        x, hue(name), x + 16, name);
    x += 40 + 7.0 * static_cast<double>(name.size());
  }
  for (auto const& [lane, row] : lanes)
    svg += fmt::format("<text x=\"4\" y=\"{}\">rank {}{}</text>\n", top + height * row + 17, lane.first,
                       lane.second == 0 ? "" : fmt::format(", group {}", lane.second));
  for (json const& e : all) {
    if (e.at("ph") != "X") continue;
    double const ts = e.at("ts"), end = ts + e.at("dur").get<double>();
    if (end < from || ts > until) continue;
    double const a = std::max(ts, from), b = std::min(end, until);
    svg += fmt::format("<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"hsl({},60%,60%)\"/>\n",
                       left + (a - from) * scale, top + height * lanes.at({e.at("pid"), e.at("tid")}) + 3,
                       std::max((b - a) * scale, 0.3), height - 6, hue(e.at("name")));
  }
  for (int tick = 0; tick <= 10; ++tick)
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{:.3g} ms</text>\n", left + width * tick / 10,
                       bottom + 20, begin + (until - from) * tick / 1e4);
  write(to, svg + "</svg>\n");
  fmt::print("drew {:.3g} ms of {} lanes to {}\n", (until - from) / 1e3, lanes.size(), to);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Reads the files that ranks write if TUTTI_RECORD or TUTTI_TRACE is set."};
  app.require_subcommand(1);
  std::vector<std::string> paths;
  std::string to;
  auto* const show_command =
      app.add_subcommand("show", "print the call that each rank is in, and which ranks are behind");
  show_command->add_option("files", paths, "flight records of one communicator's ranks")->required();
  double begin = 0, length = 0;
  auto* const draw_command = app.add_subcommand("draw", "draw traces as an SVG picture");
  draw_command->add_option("files", paths, "traces")->required();
  draw_command->add_option("-o,--output", to, "output file")->required();
  draw_command->add_option("--begin", begin, "start, in milliseconds after the first call");
  draw_command->add_option("--length", length, "length in milliseconds; 0: to the end");
  auto* const join_command = app.add_subcommand("join", "join the traces of all ranks into one");
  join_command->add_option("files", paths, "traces")->required();
  join_command->add_option("-o,--output", to, "output file")->required();
  return run_tool(app, "tutti-record", argc, argv, [&] {
    if (show_command->parsed()) show(paths);
    else if (draw_command->parsed()) draw(paths, to, begin, length);
    else join(paths, to);
    return 0;
  });
}
