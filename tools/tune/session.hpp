// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Options, the list of contests, and output of the tuning programs.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../complain.hpp"
#include "contest.hpp"
#include "tutti/core/error.hpp"
#include "tutti/tune/find.hpp"

namespace tuning {

inline constexpr std::size_t min_bytes = 8, max_bytes = std::size_t{1} << 40;  // of a message

struct settings {
  std::vector<int> ranks{2, 4, 8};
  std::vector<std::string> collectives;
  std::size_t max = std::size_t{32} << 20;
  double seconds = 90;
  double spare_seconds = 10;  // beyond twice that, so that a short measurement has the time for each contest
  std::string output = tutti::detail::usual_tuning_path(), header, results;
  bool even_if_busy = false;
  std::string program = "tutti-tune";
};

inline void add_options(CLI::App& app, settings& s) {
  std::vector<std::string> names;
  for (tutti::collective const c : tutti::every_collective) names.emplace_back(name(c));
  app.add_option("-c,--collective", s.collectives, "measure only these collectives")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option("--max", s.max, "the largest message, such as 32MiB")
      ->transform(CLI::AsSizeValue(false))
      ->check([](std::string const& text) {
        std::uint64_t bytes = 0;
        auto const [end, trouble] = std::from_chars(text.data(), text.data() + text.size(), bytes);
        bool const is_size = trouble == std::errc{} && end == text.data() + text.size();
        return is_size && bytes >= min_bytes && bytes <= max_bytes
                   ? ""
                   : fmt::format("{} is not a size from {} bytes to {} GiB, such as 32MiB", text, min_bytes,
                                 max_bytes >> 30);
      })
      ->capture_default_str();
  app.add_option("-s,--seconds", s.seconds,
                 "approximate duration in seconds; on a busy machine, up to twice that and 10 s more")
      ->check([](std::string const& text) {
        double const seconds = std::strtod(text.c_str(), nullptr);
        return seconds > 0 && std::isfinite(seconds)
                   ? ""
                   : fmt::format("{} is not a positive number of seconds, such as 90", text);
      })
      ->capture_default_str();
  app.add_option("-o,--output", s.output,
                 "the table to write; programs find it at the default path, others through TUTTI_TUNING")
      ->capture_default_str();
  app.add_flag("--even-if-busy", s.even_if_busy, "write to the default path although other programs use the machine");
  app.add_option("--results", s.results, "also write all times to this file as CSV");
}

inline std::vector<contest> contests(settings const& s) {
  // The limit for the larger arrays of all ranks together.
  static constexpr std::size_t max_floats = std::size_t{32} << 20;
  std::vector<contest> out;
  for (int const ranks : s.ranks)
    for (tutti::collective const what : tutti::every_collective) {
      if (!s.collectives.empty() && std::ranges::find(s.collectives, name(what)) == s.collectives.end()) continue;
      if (what == tutti::collective::barrier) out.push_back({what, 0, ranks});
      else
        for (std::size_t bytes = min_bytes; bytes <= s.max; bytes *= 4)
          if (contest const t{what, bytes, ranks}; t.max_floats() * static_cast<std::size_t>(ranks) <= max_floats)
            out.push_back(t);
    }
  return out;
}

// Of a measurement that begins now.
inline pace pace_of(settings const& s, std::size_t contests) {
  return {s.seconds * 1e9 / static_cast<double>(contests) / blocks_of_contest, now(),
          (2 * s.seconds + s.spare_seconds) * 1e9};
}

// Without the results of a collective and number of ranks whose larger messages the time did not suffice for: a rule for the largest
// would not be known. Throws error if none are left.
inline std::vector<result> complete(settings const& s, std::vector<result> results) {
  std::set<std::pair<int, tutti::collective>> cut;
  for (contest const& t : contests(s))
    if (std::ranges::none_of(results, [&](result const& r) {
          return r.of.what == t.what && r.of.ranks == t.ranks && r.of.bytes == t.bytes;
        }))
      cut.emplace(t.ranks, t.what);
  if (cut.empty()) return results;
  std::string names;
  for (auto const& [ranks, what] : cut)
    names += fmt::format("{}{} of {} ranks", names.empty() ? "" : ", ", name(what), ranks);
  std::erase_if(results, [&](result const& r) { return cut.contains({r.of.ranks, r.of.what}); });
  constexpr std::string_view way_out = "run it again when the machine is idle, or with a larger --seconds";
  if (results.empty())
    throw tutti::error({.code = tutti::error_code::timeout,
                        .what = "the time did not suffice to measure anything",
                        .way_out = std::string(way_out)});
  complain("{}: the time did not suffice, and the table is left as it is for {}; {}\n", s.program, names, way_out);
  return results;
}

inline void show_progress(contest const& t, std::size_t done, std::size_t all, double seconds) {
  static constexpr std::size_t width = 30;
  static bool const terminal = ::isatty(STDERR_FILENO) != 0;
  if (!terminal) return;
  std::size_t const filled = done * width / all;
  std::string const bar = std::string(filled, '#') + std::string(width - filled, '.');
  complain("\r{} {:3.0f} s  {} ranks, {}, {} bytes\033[K", bar, seconds, t.ranks, name(t.what), t.bytes);
  if (done == all) complain("\n");
}

inline std::string today() {
  std::time_t const time = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%F", std::gmtime(&time));
  return date;
}

// The command that gave the times, without the output files.
inline std::string command_of(settings const& s, std::string_view program) {
  std::string out = fmt::format("{} --max {} --seconds {}", program, s.max, s.seconds);
  if (!s.collectives.empty()) out += fmt::format(" --collective {}", fmt::join(s.collectives, ","));
  return out;
}

// "all_reduce, 2 ranks: one_shot to 512, two_shot (pull) to 8388608, two_shot".
inline void print(std::vector<tutti::detail::rule> const& rules) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    tutti::detail::rule const& r = rules[i];
    bool const first = i == 0 || rules[i - 1].what != r.what || rules[i - 1].min_ranks != r.min_ranks ||
                       rules[i - 1].memory != r.memory;
    if (first)
      fmt::print("{}{}, {} to {} ranks{}: ", i == 0 ? "" : "\n", name(r.what), r.min_ranks, r.max_ranks,
                 r.memory == tutti::detail::reach::closed      ? ", memory closed to peers"
                 : r.memory == tutti::detail::reach::messages  ? ", by messages"
                 : r.memory == tutti::detail::reach::nodes     ? ", over nodes"
                 : r.memory == tutti::detail::reach::scattered ? ", scattered over nodes"
                                                               : "");
    else fmt::print(", ");
    fmt::print("{}{}", name(r.algorithm), r.how == tutti::protocol::pull ? " (pull)" : "");
    if (r.up_to != tutti::detail::rule::no_limit) fmt::print(" to {}", r.up_to);
  }
  if (!rules.empty()) fmt::print("\n");
}

inline std::string csv(std::vector<result> const& results) {
  std::string out = "collective,ranks,bytes,algorithm,protocol,blocks,alone,in_a_row,shared_alone,shared_in_a_row\n";
  for (result const& r : results)
    out += fmt::format("{},{},{},{},{},{},{:.0f},{:.0f},{:.0f},{:.0f}\n", name(r.of.what), r.of.ranks, r.of.bytes,
                       name(r.algorithm), name(r.how), r.blocks, r.own.alone, r.own.in_a_row, r.shared.alone,
                       r.shared.in_a_row);
  return out;
}

}  // namespace tuning
