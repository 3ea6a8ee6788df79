// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti-tune-<mpi> runs under the launcher of that MPI. It measures which algorithm is fastest over it, including the MPI's own
// collectives and, on several nodes, two_level, and the latency and bandwidth between ranks. The rules are added to the existing table,
// or to a copy of the table that tutti ships.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "../command_line.hpp"
#include "contest.hpp"
#include "session.hpp"
#include "tutti/core/file.hpp"
#include "tutti/mpi.hpp"
#include "update.hpp"
#include "write.hpp"

namespace {

using namespace tuning;

// Ranks that may be on several machines, each with its own clock.
class mpi_field {
 public:
  std::int64_t start() {
    MPI_Barrier(MPI_COMM_WORLD);
    return now();
  }
  laps finish(std::vector<double> own, double wall) {
    MPI_Allreduce(MPI_IN_PLACE, own.data(), static_cast<int>(own.size()), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Bcast(&wall, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return {std::move(own), wall};
  }
};

template <class Transport>
std::vector<result> measure(settings const& s, tutti::communicator<Transport>& comm) {
  std::vector<contest> const all = contests(s);
  std::int64_t const began = now();
  std::size_t floats = 1;
  for (contest const& t : all) floats = std::max(floats, t.max_floats());
  std::vector<float> first(floats), second(floats);
  memories const memory{{first, second}, {}};
  mpi_field field;
  referee judge(comm, field, memory, block_time(s, all.size()));
  std::vector<result> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (result const& r : judge.hold(all[i])) out.push_back(r);
    if (comm.rank() == 0) show_progress(all[i], i + 1, all.size(), static_cast<double>(now() - began) * 1e-9);
  }
  return out;
}

// Rules for ranks with this reach.
std::vector<tutti::detail::rule> rules_for(tutti::detail::reach memory, settings const& s,
                                           std::vector<result> const& results) {
  std::vector<tutti::detail::rule> out = measured_rules(s, results);
  for (tutti::detail::rule& r : out) r.memory = memory;
  return out;
}

// Called by all ranks.
void tune(settings& s, tutti::communicator<tutti::hierarchical>& comm, std::string const& program) {
  s.ranks = {comm.size()};
  bool const writes = comm.is_main();
  std::optional<drafts> files;
  tutti::detail::owned_table table;
  if (writes) {
    auto there = table_at(s.output);
    table = there ? *std::move(there) : built_in_table();
    files.emplace(s);
    fmt::print("{}\n", topology_of(comm).text());
  }
  tutti::detail::node_map const& nodes = comm.engine().transport().nodes();
  std::vector<result> results;
  if (nodes.count() > 1) {
    results = measure(s, comm);
  } else {
    auto flat = tutti::from_mpi();  // without shared memory
    results = measure(s, flat);
  }
  if (!writes) return;
  table.links = comm.engine().tuned.table().links;
  std::vector<result> one_level;
  std::ranges::copy_if(results, std::back_inserter(one_level),
                       [](result const& r) { return r.algorithm != tutti::algorithm_id::two_level; });
  put_before(table.rules, rules_for(tutti::detail::reach::messages, s, one_level));
  if (nodes.count() > 1) {
    auto const over = nodes.consecutive() ? tutti::detail::reach::nodes : tutti::detail::reach::scattered;
    put_before(table.rules, rules_for(over, s, results));
  }
  table.command = commands_of(table.command, command_of(s, fmt::format("mpirun -n {} {}", comm.size(), program)));
  if (files->times) files->times->commit(csv(results));
  files->table.commit(to_text(table.view()));
  fmt::print("wrote {}\n", s.output);
}

// Calls f(). Ends all ranks if it throws; the others would wait for this one, and its communicator for them.
template <class F>
void or_abort(std::string const& program, F&& f) {
  try {
    f();
  } catch (std::exception const& e) {
    fmt::print(stderr, "{}: {}\n", program, e.what());
    tutti::detail::abort_mpi(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  settings s;
  CLI::App app{
      "Measures tutti over this MPI and adds rules to the table by which tutti chooses its algorithms. Start it "
      "under the launcher of the MPI, with the number of ranks that the rules are for. It also measures the latency "
      "and "
      "bandwidth between ranks and, on several nodes, the algorithm two_level."};
  add_options(app, s);
  return run_tool(app, std::filesystem::path(argv[0]).filename(), argc, argv, [&] {
    ::unsetenv("TUTTI_ALGORITHM");
    ::setenv("TUTTI_TOPOLOGY", "measure", 1);
    // Contests name their algorithms. For two_level, the existing table chooses the algorithms of the parts.
    ::setenv("TUTTI_TUNING", tutti::detail::read_file(s.output) ? s.output.c_str() : "", 1);
    or_abort(app.get_name(), [&] {
      auto comm = tutti::from_mpi<tutti::hierarchical>();
      if (comm.size() < 2)
        throw tutti::error(
            {.code = tutti::error_code::bad_argument,
             .what = "there is only one rank, so there is nothing to measure",
             .way_out = "start it under the launcher of the MPI that it was built for: mpirun -n 4 ..."});
      or_abort(app.get_name(), [&] { tune(s, comm, app.get_name()); });
    });
    return 0;
  });
}
