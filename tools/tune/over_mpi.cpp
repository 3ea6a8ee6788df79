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
#include "../complain.hpp"
#include "busy.hpp"
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
  laps finish(std::vector<double> own, block_notes const& notes) {
    own.push_back(notes.lost);
    MPI_Allreduce(MPI_IN_PLACE, own.data(), static_cast<int>(own.size()), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    double of_main[] = {notes.wall, notes.ended};
    MPI_Bcast(of_main, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    double const lost = own.back();
    own.pop_back();
    return {std::move(own), {of_main[0], of_main[1], lost}};
  }
};

// The ranks of rank 0's node, and their cores.
class node {
 public:
  node() {
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &ranks_);
    MPI_Allreduce(MPI_IN_PLACE, &cores_, sizeof cores_, MPI_BYTE, MPI_BOR, ranks_);
  }
  node(node const&) = delete;
  node& operator=(node const&) = delete;
  ~node() { MPI_Comm_free(&ranks_); }

  cpu_set_t const& cores() const { return cores_; }
  // Called by all ranks.
  double own_seconds() const {
    double out = tuning::own_seconds();
    MPI_Allreduce(MPI_IN_PLACE, &out, 1, MPI_DOUBLE, MPI_SUM, ranks_);
    return out;
  }

 private:
  MPI_Comm ranks_ = MPI_COMM_NULL;
  cpu_set_t cores_ = tutti::detail::usable_cores();
};

template <class Transport>
std::vector<result> measure(settings const& s, tutti::communicator<Transport>& comm, disturbance& seen) {
  std::vector<contest> const all = contests(s);
  pace const time = pace_of(s, all.size());
  std::size_t floats = 1;
  for (contest const& t : all) floats = std::max(floats, t.max_floats());
  std::vector<float> first(floats), second(floats);
  memories const memory{{first, second}, {}};
  mpi_field field;
  referee judge(comm, field, memory, time);
  std::vector<result> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (result const& r : judge.hold(all[i])) out.push_back(r);
    if (judge.is_late()) break;
    if (comm.rank() == 0) show_progress(all[i], i + 1, all.size(), static_cast<double>(now() - time.began) * 1e-9);
  }
  seen = judge.seen();
  return out;
}

// Rules for ranks with this reach.
std::vector<tutti::detail::rule> rules_for(tutti::detail::reach memory, settings const& s,
                                           std::vector<result> const& results) {
  std::vector<tutti::detail::rule> out = measured_rules(s, results);
  for (tutti::detail::rule& r : out) r.memory = memory;
  return out;
}

// Called by all ranks. Returns the exit code.
int tune(settings& s, tutti::communicator<tutti::hierarchical>& comm) {
  s.ranks = {comm.size()};
  bool const writes = comm.is_main();
  std::optional<drafts> files;
  tutti::detail::owned_table table;
  if (writes) {
    files.emplace(s);
    table = table_to_update(s);
    warn_if_busy(s);
    fmt::print("{}\n", topology_of(comm).text());
  }
  tutti::detail::node_map const& nodes = comm.engine().transport().nodes();
  std::vector<result> results;
  disturbance seen;
  node const own_node;
  other_programs const others(own_node.cores(), own_node.own_seconds());
  if (nodes.count() > 1) {
    results = measure(s, comm, seen);
  } else {
    auto flat = tutti::from_mpi();  // without shared memory
    results = measure(s, flat, seen);
  }
  double const share = others.share(own_node.own_seconds());
  if (!writes) return 0;
  results = complete(s, std::move(results));
  std::vector<result> one_level;
  std::ranges::copy_if(results, std::back_inserter(one_level),
                       [](result const& r) { return r.algorithm != tutti::algorithm_id::two_level; });
  std::vector<tutti::detail::rule> const by_messages = rules_for(tutti::detail::reach::messages, s, one_level);
  std::vector<tutti::detail::rule> over_nodes;
  put_before(table.rules, by_messages);
  if (nodes.count() > 1) {
    auto const over = nodes.consecutive() ? tutti::detail::reach::nodes : tutti::detail::reach::scattered;
    over_nodes = rules_for(over, s, results);
    put_before(table.rules, over_nodes);
  }
  // Those that were not measured are those of the table itself.
  sign(table, comm.engine().tuned.table().links, command_of(s, fmt::format("mpirun -n {} {}", comm.size(), s.program)));
  if (files->times) files->times->commit(csv(results));
  int const code = write_table(s, files->table, to_text(table.view()), busyness(share, seen));
  print(by_messages);
  print(over_nodes);
  return code;
}

// The path, if there is a table that is kept.
std::string kept_table(std::string const& path) {
  try {
    auto const there = table_at(path);
    return there && is_of_this_machine(*there) ? path : "";
  } catch (tutti::error const&) {
    return {};
  }
}

// Calls f(). Ends all ranks if it throws; the others would wait for this one, and its communicator for them.
template <class F>
void or_abort(std::string const& program, F&& f) {
  try {
    f();
  } catch (std::exception const& e) {
    complain("{}: {}\n", program, e.what());
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
    ::setenv("TUTTI_TUNING", kept_table(s.output).c_str(), 1);
    s.program = app.get_name();
    int code = 0;
    or_abort(app.get_name(), [&] {
      auto comm = tutti::from_mpi<tutti::hierarchical>();
      if (comm.size() < 2)
        throw tutti::error(
            {.code = tutti::error_code::bad_argument,
             .what = "there is only one rank, so there is nothing to measure",
             .way_out = "start it under the launcher of the MPI that it was built for: mpirun -n 4 ..."});
      or_abort(app.get_name(), [&] { code = tune(s, comm); });
    });
    return code;
  });
}
