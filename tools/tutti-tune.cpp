// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures which algorithm is fastest where on this machine, and writes the table that tutti then goes by.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tune/contest.hpp"
#include "tune/rules.hpp"
#include "tune/write.hpp"
#include "tutti/tune/find.hpp"
#include "tutti/tutti.hpp"

namespace {

using namespace tuning;

struct settings {
  std::vector<int> ranks{2, 4, 8};
  std::vector<std::string> collectives;
  std::size_t max = std::size_t{32} << 20;
  double seconds = 90;
  std::string output = tutti::usual_tuning_path(), header, results;
};

// What the ranks leave for their parent.
struct notes {
  start_line line;
  std::size_t count = 0;
  result results[1 << 15];
};

std::vector<contest> contests(settings const& s) {
  // What the arrays of all ranks may take together: the input and the output of each.
  static constexpr std::size_t most_floats = std::size_t{32} << 20;
  std::vector<contest> out;
  for (int const ranks : s.ranks)
    for (tutti::collective const what : tutti::every_collective) {
      if (!s.collectives.empty() && std::ranges::find(s.collectives, name(what)) == s.collectives.end()) continue;
      if (what == tutti::collective::barrier) out.push_back({what, 0, ranks});
      else
        for (std::size_t bytes = 8; bytes <= s.max; bytes *= 4)
          if (contest const t{what, bytes, ranks}; t.most_floats() * static_cast<std::size_t>(ranks) <= most_floats)
            out.push_back(t);
    }
  return out;
}

void show_progress(contest const& t, std::size_t done, std::size_t all, double seconds) {
  static constexpr std::size_t width = 30;
  static bool const terminal = ::isatty(STDERR_FILENO) != 0;
  if (!terminal) return;
  std::size_t const filled = done * width / all;
  std::string const bar = std::string(filled, '#') + std::string(width - filled, '.');
  fmt::print(stderr, "\r{} {:3.0f} s  {} ranks, {}, {} bytes\033[K", bar, seconds, t.ranks, name(t.what), t.bytes);
  if (done == all) fmt::print(stderr, "\n");
}

void measure(settings const& s, notes& shared) {
  std::vector<contest> const all = contests(s);
  std::int64_t const began = now();
  // What a contest takes, in blocks.
  double const block = s.seconds * 1e9 / static_cast<double>(all.size()) / 26;
  std::size_t done = 0;
  for (int const ranks : s.ranks) {
    std::vector<contest> mine;
    std::ranges::copy_if(all, std::back_inserter(mine), [&](contest const& t) { return t.ranks == ranks; });
    std::size_t floats = 1;
    for (contest const& t : mine) floats = std::max(floats, t.most_floats());
    shared.line.arrived = shared.line.start = 0;
    tutti::run_local(ranks, [&](communicator& comm) {
      std::vector<float> first(floats), second(floats);
      auto const third = comm.allocate<float>(floats), fourth = comm.allocate<float>(floats);
      memories const memory{{first, second}, {std::span(third), std::span(fourth)}};
      referee judge(comm, shared.line, memory, block);
      for (std::size_t i = 0; i < mine.size(); ++i) {
        auto const found = judge.hold(mine[i]);
        if (comm.rank() != 0) continue;
        for (result const& r : found)
          if (shared.count < std::size(shared.results)) shared.results[shared.count++] = r;
        show_progress(mine[i], done + i + 1, all.size(), static_cast<double>(now() - began) * 1e-9);
      }
    });
    done += mine.size();
  }
}

std::string today() {
  std::time_t const time = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%F", std::gmtime(&time));
  return date;
}

// "all_reduce, 2 ranks: one_shot to 512, two_shot (pull) to 8388608, two_shot".
void print(std::vector<tutti::rule> const& rules) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    tutti::rule const& r = rules[i];
    bool const first = i == 0 || rules[i - 1].what != r.what || rules[i - 1].least_ranks != r.least_ranks ||
                       rules[i - 1].memory != r.memory;
    if (first)
      fmt::print("{}, {} to {} ranks{}: ", name(r.what), r.least_ranks, r.most_ranks,
                 r.memory == tutti::reach::closed ? ", memory closed to peers" : "");
    fmt::print("{}{}", name(r.algorithm), r.how == tutti::protocol::pull ? " (pull)" : "");
    if (r.up_to != tutti::rule::no_limit) fmt::print(" to {}, ", r.up_to);
    else fmt::print("\n");
  }
}

std::string csv(std::vector<result> const& results) {
  std::string out = "collective,ranks,bytes,algorithm,protocol,blocks,nanoseconds,in_shared_arrays\n";
  for (result const& r : results)
    out += fmt::format("{},{},{},{},{},{},{:.0f},{:.0f}\n", name(r.of.what), r.of.ranks, r.of.bytes, name(r.algorithm),
                       name(r.how), r.blocks, r.nanoseconds, r.shared);
  return out;
}

// What gave the times, without where they were written.
std::string command_of(settings const& s) {
  std::string out =
      fmt::format("tutti-tune --ranks {} --max {} --seconds {}", fmt::join(s.ranks, ","), s.max, s.seconds);
  if (!s.collectives.empty()) out += fmt::format(" --collective {}", fmt::join(s.collectives, ","));
  return out;
}

// An identifier out of the machine's name.
std::string header_name(std::string const& machine) {
  std::string out = std::isdigit(static_cast<unsigned char>(machine[0])) != 0 ? "machine_" : "";
  for (char const c : machine) {
    bool const letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (letter) out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!out.empty() && out.back() != '_') out += '_';
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  settings s;
  std::vector<std::string> names;
  for (tutti::collective const c : tutti::every_collective) names.emplace_back(name(c));

  CLI::App app{"Measures this machine, and writes the table by which tutti chooses its algorithms."};
  app.add_option("-r,--ranks", s.ranks, "numbers of ranks to measure")
      ->delimiter(',')
      ->check(CLI::Range(2, most_ranks))
      ->capture_default_str();
  app.add_option("-c,--collective", s.collectives, "these alone; the others are left to the cost model")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option("--max", s.max, "largest message, such as 32MiB")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("-s,--seconds", s.seconds, "about how long")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("-o,--output", s.output, "the table; TUTTI_TUNING names another one than the usual")
      ->capture_default_str();
  app.add_option("--header", s.header, "writes the table as a header too, for tutti::init(tutti::tables::<machine>)");
  app.add_option("--results", s.results, "writes all times as CSV too");
  CLI11_PARSE(app, argc, argv);

  try {
    std::ranges::sort(s.ranks);
    s.ranks.erase(std::ranges::unique(s.ranks).begin(), s.ranks.end());
    ::setenv("TUTTI_TUNING", "", 1);  // contests name their algorithms
    ::unsetenv("TUTTI_ALGORITHM");
    draft table_file(s.output);
    std::optional<draft> header, times;
    if (!s.header.empty()) header.emplace(s.header);
    if (!s.results.empty()) times.emplace(s.results);
    tuning::shared<notes> const shared;
    measure(s, *shared);
    std::vector<result> const results(shared->results, shared->results + shared->count);

    tutti::owned_table table{.machine = tutti::this_machine(),
                             .date = today(),
                             .command = command_of(s),
                             .apart = fit(results, false),
                             .crowded = fit(results, true),
                             .rules = rules_of(results)};
    if (table.apart == tutti::costs{}) table.apart = table.crowded;
    if (table.crowded == tutti::costs{}) table.crowded = table.apart;
    print(table.rules);
    if (times) times->commit(csv(results));
    if (header) header->commit(to_header(table.view(), header_name(table.machine)));
    table_file.commit(to_text(table.view()));
    fmt::print("wrote {}\n", s.output);
  } catch (std::exception const& e) {
    fmt::print(stderr, "tutti-tune: {}\n", e.what());
    return 2;
  }
}
