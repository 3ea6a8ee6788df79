// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures which algorithm is fastest for each collective and size on this machine, and writes the tuning table that tutti uses.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "command_line.hpp"
#include "tune/busy.hpp"
#include "tune/contest.hpp"
#include "tune/rules.hpp"
#include "tune/session.hpp"
#include "tune/update.hpp"
#include "tune/write.hpp"
#include "tutti/tutti.hpp"

namespace {

using namespace tuning;

// Results that the ranks leave for their parent.
struct notes {
  start_line line;
  tutti::detail::link_times links;  // measured with the smallest number of ranks
  disturbance seen;
  std::size_t count = 0;
  result results[1 << 15];
};

void measure(settings const& s, notes& shared) {
  std::vector<contest> const all = contests(s);
  pace const time = pace_of(s, all.size());
  std::size_t done = 0;
  for (int const ranks : s.ranks) {
    std::vector<contest> mine;
    std::ranges::copy_if(all, std::back_inserter(mine), [&](contest const& t) { return t.ranks == ranks; });
    std::size_t floats = 1;
    for (contest const& t : mine) floats = std::max(floats, t.max_floats());
    shared.line.arrived = shared.line.start = 0;
    tutti::run_local(ranks, [&](tutti::communicator<tutti::shm>& comm) {
      std::vector<float> first(floats), second(floats);
      auto const third = comm.allocate<float>(floats), fourth = comm.allocate<float>(floats);
      memories const memory{{first, second}, {std::span(third), std::span(fourth)}};
      shared_field field(shared.line, comm.rank(), comm.size(), comm.engine().transport().crowded());
      referee judge(comm, field, memory, time);
      if (comm.rank() == 0 && ranks == s.ranks.front()) shared.links = comm.engine().tuned.table().links;
      for (std::size_t i = 0; i < mine.size(); ++i) {
        auto const found = judge.hold(mine[i]);
        if (judge.is_late()) break;
        if (comm.rank() != 0) continue;
        for (result const& r : found)
          if (shared.count < std::size(shared.results)) shared.results[shared.count++] = r;
        show_progress(mine[i], done + i + 1, all.size(), static_cast<double>(now() - time.began) * 1e-9);
      }
      if (comm.rank() == 0) shared.seen += judge.seen();
    });
    done += mine.size();
  }
}

// Makes an identifier of the machine's name.
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
  CLI::App app{
      "Measures this machine and writes the table by which tutti chooses its algorithms. Of an existing table, it "
      "keeps what it does not "
      "measure."};
  app.add_option("-r,--ranks", s.ranks, "numbers of ranks to measure")
      ->delimiter(',')
      ->check(CLI::Range(2, max_ranks))
      ->capture_default_str();
  add_options(app, s);
  app.add_option("--header", s.header, "also write the table as a header, for tutti::init(tutti::tables::<machine>)");
  return run_tool(app, "tutti-tune", argc, argv, [&] {
    std::ranges::sort(s.ranks);
    s.ranks.erase(std::ranges::unique(s.ranks).begin(), s.ranks.end());
    ::setenv("TUTTI_TUNING", "", 1);  // contests name their algorithms explicitly
    ::unsetenv("TUTTI_ALGORITHM");
    ::setenv("TUTTI_TOPOLOGY", "measure", 1);
    drafts const files(s);
    warn_if_busy(s);
    tuning::shared<notes> const shared;
    other_programs const others(tutti::detail::usable_cores(), own_seconds());
    measure(s, *shared);
    std::string const busy = busyness(others.share(own_seconds()), shared->seen);
    std::vector<result> const results = complete(s, {shared->results, shared->results + shared->count});

    tutti::detail::owned_table table = table_to_update(s);
    table.apart = fit(results, false, table.apart);
    table.crowded = fit(results, true, table.crowded);
    std::vector<tutti::detail::rule> const measured = measured_rules(s, results);
    put_before(table.rules, measured);
    sign(table, shared->links, command_of(s, fmt::format("tutti-tune --ranks {}", fmt::join(s.ranks, ","))));
    if (files.times) files.times->commit(csv(results));
    if (files.header) files.header->commit(to_header(table.view(), header_name(table.machine)));
    int const code = write_table(s, files.table, to_text(table.view()), busy);
    print(measured);  // last, because its reader may end this program, such as head
    return code;
  });
}
