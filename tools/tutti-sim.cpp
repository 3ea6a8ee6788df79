// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Studies algorithms without running them: verifies them, predicts their cost, simulates them on many ranks, and draws them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "command_line.hpp"
#include "sim/machines.hpp"
#include "sim/pipeline.hpp"
#include "sim/two_level.hpp"
#include "tutti/algorithm/registry.hpp"
#include "tutti/analyze/cost.hpp"
#include "tutti/analyze/draw.hpp"
#include "tutti/analyze/verify.hpp"

namespace {

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::analyze;
using simulator::refuse;

struct served {
  algorithm_id id;
  collective what;
  dynamic_schedule schedule;
};

collective collective_named(std::string const& wanted) {
  std::string all;
  for (collective const c : every_collective) {
    if (name(c) == wanted) return c;
    all += fmt::format("{}{}", all.empty() ? "" : ", ", name(c));
  }
  refuse(fmt::format("\"{}\" is not a collective", wanted), "the collectives are: " + all);
}

// The schedules of the wanted algorithms ("all" for all of them) for the wanted collectives.
std::vector<served> chosen(std::vector<std::string> const& wanted_algorithms, std::string const& wanted_collective) {
  for (std::string const& n : wanted_algorithms)
    if (n != "all" && find_algorithm(n) == algorithm_id::automatic)
      refuse(fmt::format("\"{}\" is not an algorithm", n),
             fmt::format("the algorithms are: {}; `all` stands for all of them", fmt::join(algorithms::names, ", ")));
  bool const any = wanted_collective == "all";
  collective const only = any ? collective{} : collective_named(wanted_collective);
  std::vector<served> out;
  for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule s) {
    bool const wanted = std::any_of(wanted_algorithms.begin(), wanted_algorithms.end(),
                                    [&](std::string const& n) { return n == "all" || n == name(id); });
    if (wanted && (any || c == only)) out.push_back({id, c, s});
  });
  if (out.empty() && wanted_algorithms == std::vector{std::string(name(algorithm_id::two_level))})
    refuse("two_level is no schedule, but a sequence of collectives",
           "`tutti-sim simulate` gives their times, and `tutti-sim verify` proves them");
  if (out.empty())
    refuse(fmt::format("{} does not implement {}", fmt::join(wanted_algorithms, ", "), wanted_collective),
           "`tutti-sim list` prints which algorithm implements which collective");
  return out;
}

constexpr int max_simulated_ranks = 1'000'000, max_ranks_on_nodes = 100'000, max_verified_ranks = 512;

void check_ranks(int ranks, int root) {
  if (ranks < 1 || ranks > max_simulated_ranks)
    refuse(fmt::format("the number of ranks is {}", ranks), fmt::format("give 1 to {}", max_simulated_ranks));
  if (root < 0 || root >= ranks)
    refuse(fmt::format("{} is not a rank of {}, so it cannot be the root", root, ranks),
           fmt::format("give a rank from 0 to {}", ranks - 1));
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

void list_command() {
  std::size_t wide = 0;
  for (std::string_view const n : algorithms::names) wide = std::max(wide, n.size());
  for (std::size_t i = 1; i <= algorithms::size; ++i) {
    auto const id = static_cast<algorithm_id>(i);
    std::string line;
    for (collective const c : every_collective)
      if (auto const s = find_schedule(id, c))
        line += fmt::format("{}{}{}", line.empty() ? "" : " ", name(c), s.needs_commutative ? "*" : "");
    fmt::print("{:<{}}  {}\n", name(id), wide, line);
  }
  fmt::print("{:<{}}  all of these, inside nodes and then across them\n", name(algorithm_id::two_level), wide);
  fmt::print("\n* commutative operations only\n");
}

bool names_two_level(std::vector<std::string> const& wanted) {
  return std::ranges::find(wanted, name(algorithm_id::two_level)) != wanted.end();
}
// Takes two_level, which is no schedule, out of the wanted algorithms; returns whether it was there, or all are wanted.
bool take_two_level(std::vector<std::string>& wanted) {
  bool const named = std::erase(wanted, name(algorithm_id::two_level)) > 0;
  return named || std::ranges::find(wanted, "all") != wanted.end();
}

struct verify_arguments {
  std::vector<std::string> algorithms{"all"};
  std::string what = "all";
  std::string ranks = "1-32";
  std::vector<int> nodes{};
  int slices = 3, credits = 2;
  bool in_place = false, direct = false;
};

std::pair<int, int> range_of(std::string const& text) {
  try {
    std::size_t used = 0;
    int const first = std::stoi(text, &used);
    if (used == text.size()) return {first, first};
    if (text[used] == '-') {
      std::string const rest = text.substr(used + 1);
      if (int const last = std::stoi(rest, &used); used == rest.size() && first <= last) return {first, last};
    }
  } catch (std::exception const&) {
    // reported below
  }
  refuse(fmt::format("\"{}\" is not a range of ranks", text), "write a number such as 8, or a range such as 1-64");
}

// Returns the exit code: 1 if a schedule is wrong, or if there was nothing to prove.
int verify_command(verify_arguments a) {
  auto const [first, last] = range_of(a.ranks);
  check_ranks(first, 0);
  if (names_two_level(a.algorithms) && a.nodes.empty() && last < 2)
    refuse("two_level needs at least 2 ranks", "give more");
  bool const composite = take_two_level(a.algorithms);
  if (last > max_verified_ranks)
    refuse(fmt::format("cannot verify {} ranks", last),
           fmt::format("give at most {}, which takes minutes; `tutti-sim simulate` takes up to {}", max_verified_ranks,
                       max_simulated_ranks));
  for (int const each : {a.slices, a.credits})
    if (each < 1 || each > 64) refuse(fmt::format("cannot verify {} slices or credits", each), "give 1 to 64");
  int on_nodes = 0;
  for (int const each : a.nodes) {
    if (each < 1 || each > max_verified_ranks - on_nodes)
      refuse(fmt::format("the nodes have less than 1 or more than {} ranks", max_verified_ranks),
             "give 1 or more for each");
    on_nodes += each;
  }
  if (!composite && !a.nodes.empty()) refuse("--nodes is for two_level", "name that algorithm");
  if (a.what != "all") collective_named(a.what);
  bool fine = !composite || simulator::verify_two_levels(a.what, first, last, a.nodes, a.in_place);
  if (a.algorithms.empty() || !a.nodes.empty()) return fine ? 0 : 1;
  for (served const& x : chosen(a.algorithms, a.what)) {
    int cases = 0;
    std::string why;
    for (int p = first; p <= last && why.empty(); ++p)
      for (int root = 0; root < (rooted(x.what) ? p : 1) && why.empty(); root += std::max(1, p / 8))
        for (int ordered = 0; ordered <= (reduces(x.what) && !x.schedule.needs_commutative ? 1 : 0) && why.empty();
             ++ordered) {
          verdict const v =
              verify(x.schedule, x.what, {p, root, ordered == 1},
                     {.in_place = a.in_place, .direct = a.direct, .slices = a.slices, .credits = a.credits});
          ++cases;
          if (!v.ok) why = fmt::format("{} ranks, root {}{}: {}", p, root, ordered ? ", ordered" : "", v.why);
        }
    fine = fine && why.empty();
    fmt::print("{:<7} {:<18} {:<14} {}\n", why.empty() ? "correct" : "WRONG", name(x.id), name(x.what),
               why.empty() ? fmt::format("{} cases", cases) : why);
  }
  return fine ? 0 : 1;
}

struct machine_arguments {
  std::vector<std::string> algorithms{"all"};
  std::string what = "all_reduce";
  std::vector<int> ranks{2, 8, 64, 1024};
  double bytes = 8, slice = 0;
  int root = 0;
  std::string named;
  enclosure node{.ranks = 0};
  std::vector<int> nodes{};
  model machine{.alpha = 3.64e-6, .beta = 4e-11, .gamma = 1e-11, .gap = 1e-7};
};

void machine_options(CLI::App& to, machine_arguments& a) {
  to.add_option("algorithm", a.algorithms, "algorithms, or all")->capture_default_str();
  to.add_option("-c,--collective", a.what, "the collective")->capture_default_str();
  to.add_option("-r,--ranks", a.ranks, "numbers of ranks")->capture_default_str();
  to.add_option("-b,--bytes", a.bytes, "size of the message, such as 8, 64KiB, 1GiB")
      ->capture_default_str()
      ->transform(CLI::AsSizeValue(false));
  to.add_option("-s,--slice", a.slice, "largest slice in bytes; 0: messages are not sliced")
      ->capture_default_str()
      ->transform(CLI::AsSizeValue(false));
  to.add_option("--root", a.root, "the root, if the collective has one")->capture_default_str();
  std::vector<CLI::Option*> times{
      to.add_option("--alpha", a.machine.alpha, "seconds per message"),
      to.add_option("--beta", a.machine.beta, "seconds per byte"),
      to.add_option("--gamma", a.machine.gamma, "seconds per combined byte"),
      to.add_option("--gap", a.machine.gap, "seconds for which a message occupies a port, besides its bytes"),
  };
  auto* const node = to.add_option("--node", a.node.ranks, "ranks per node; 0: no nodes");
  for (auto* const inside : {
           to.add_option("--alpha-inside", a.node.alpha, "seconds per message within a node"),
           to.add_option("--beta-inside", a.node.beta, "seconds per byte within a node; 0: as between nodes"),
           to.add_option(
               "--uplink", a.node.uplink,
               "seconds per byte that leaves or enters a node, on a link that its ranks share; 0: they share none"),
       })
    times.push_back(inside->needs(node));
  times.push_back(node);
  for (auto* const time : times) time->capture_default_str();
  std::string known;
  for (auto const& m : simulator::machines()) known += fmt::format("\n{}: {}", m.name, m.text);
  auto* const machine = to.add_option("--machine", a.named, "a machine, instead of the times above:" + known);
  for (auto* const time : times) machine->excludes(time);
}

void check(machine_arguments& a) {
  collective_named(a.what);
  for (int const p : a.ranks) check_ranks(p, a.root);
  model& m = a.machine;
  enclosure& node = a.node;
  for (double const x :
       {a.bytes, a.slice, m.alpha, m.beta, m.gamma, m.gap, node.alpha, node.beta, node.uplink, 1.0 * node.ranks})
    if (!(x >= 0 && std::isfinite(x))) refuse("sizes and times must be finite and not negative", "give 0 or more");
  if (node.beta == 0) node.beta = m.beta;
  if (node.ranks > 0) m.enclosures = {node};
  if (a.named.empty()) return;
  std::string known;
  for (auto const& one : simulator::machines()) {
    if (a.named == one.name) return void(m = one.times);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
  }
  refuse(fmt::format("\"{}\" is not a machine", a.named), "the machines are: " + known);
}

// The row of two_level, on nodes of the machine or of the sizes that were given, and its parts.
std::string simulate_two_levels(machine_arguments const& a, std::vector<int> const& ranks) {
  collective const what = collective_named(a.what);
  std::string parts;
  fmt::print("{:<20}", name(algorithm_id::two_level));
  for (int const p : ranks) {
    auto const nodes = a.nodes.empty() ? simulator::nodes_of(p, a.machine.enclosures.front().ranks)
                                       : simulator::nodes_of_sizes(a.nodes);
    auto const times = simulate_two_level(what, nodes, p, {a.bytes, a.slice}, a.machine);
    double sum = 0;
    for (auto const& t : times) sum += t.seconds;
    fmt::print("{:>14}", time_text(sum));
    parts += fmt::format("two_level, {} ranks on {}: {}\n", p, nodes.text(), simulator::parts_text(times, time_text));
  }
  fmt::print("\n");
  return parts;
}

// Returns the exit code: 1 if nothing could be simulated.
int simulate_command(machine_arguments a) {
  check(a);
  bool const named = names_two_level(a.algorithms);
  bool const on_nodes = !a.machine.enclosures.empty() || !a.nodes.empty();
  if (named && !on_nodes) refuse("two_level needs nodes", "give --node, --nodes or --machine");
  if (!a.nodes.empty()) {
    a.ranks = {0};
    for (int const each : a.nodes) {
      if (each < 1 || each > max_ranks_on_nodes - a.ranks[0])
        refuse(fmt::format("a node has less than 1 rank, or all together more than {}", max_ranks_on_nodes),
               "give 1 or more for each, and fewer nodes or smaller ones");
      a.ranks[0] += each;
    }
    check_ranks(a.ranks[0], a.root);
  }
  bool const composite = take_two_level(a.algorithms) && on_nodes;
  std::vector<served> const rows = a.algorithms.empty() ? std::vector<served>() : chosen(a.algorithms, a.what);
  fmt::print("{} of {:.0f} bytes; alpha {:g} s, beta {:g} s/byte, gamma {:g} s/byte, gap {:g} s\n\n{:<20}", a.what,
             a.bytes, a.machine.alpha, a.machine.beta, a.machine.gamma, a.machine.gap, "ranks");
  for (int const p : a.ranks) fmt::print("{:>14}", p);
  fmt::print("\n");
  std::string complaints;
  bool any = composite;
  for (served const& x : rows) {
    fmt::print("{:<20}", name(x.id));
    for (int const p : a.ranks) {
      std::string cell;
      try {
        cell = time_text(simulate(x.schedule, {p, a.root}, {a.bytes, a.slice}, a.machine).seconds);
        any = true;
      } catch (error const& e) {
        cell = "-";
        complaints += fmt::format("{}, {} ranks: {}\n", name(x.id), p, e.what());
      }
      fmt::print("{:>14}", cell);
      std::fflush(stdout);
    }
    fmt::print("\n");
  }
  std::string const parts = composite ? simulate_two_levels(a, a.ranks) : "";
  if (!parts.empty()) fmt::print("\n{}", parts);
  if (complaints.empty()) return 0;
  std::fflush(stdout);
  fmt::print(stderr, "\n{}", complaints);
  return any ? 0 : 1;
}

void cost_command(machine_arguments a) {
  check(a);
  std::vector<served> const rows = chosen(a.algorithms, a.what);
  fmt::print(
      "T = hops * alpha + sent * bytes * beta + combined * bytes * gamma\n\n{:<20}{:>8}{:>8}{:>10}{:>10}{:>14}\n",
      a.what, "ranks", "hops", "sent", "combined", "T");
  for (served const& x : rows)
    for (int const p : a.ranks) {
      terms const t = terms_of(x.schedule, {p, a.root});
      fmt::print("{:<20}{:>8}{:>8.0f}{:>10.3f}{:>10.3f}{:>14}\n", name(x.id), p, t.hops, t.sent, t.combined,
                 time_text(predict(x.schedule, {p, a.root}, {a.bytes, a.slice}, a.machine)));
    }
}

struct draw_arguments {
  std::string algorithm, what;
  int ranks = 4, root = 0;
  bool ordered = false;
  std::string svg;
};

void draw_command(draw_arguments const& a) {
  check_ranks(a.ranks, a.root);
  if (a.ranks > 64) refuse(fmt::format("cannot draw {} ranks", a.ranks), "give at most 64");
  if (a.algorithm == "all") refuse("a picture shows one algorithm", "name it");
  collective_named(a.what);
  served const x = chosen({a.algorithm}, a.what).front();
  shape const s{a.ranks, a.root, a.ordered};
  if (a.svg.empty()) return draw_text(std::cout, x.schedule, s);
  std::ofstream file(a.svg);
  draw_svg(file, x.schedule, s);
  file.close();
  if (!file) refuse(fmt::format("cannot write {}", a.svg), "name a file in an existing folder that you may write to");
  fmt::print("wrote {}\n", a.svg);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Verifies, costs, simulates and draws tutti's algorithms."};
  app.require_subcommand(1);

  app.add_subcommand("list", "print which algorithm implements which collective");

  verify_arguments verifying;
  CLI::App& verify = *app.add_subcommand("verify", "prove schedules correct by executing them symbolically");
  verify.add_option("algorithm", verifying.algorithms, "algorithms, or all")->capture_default_str();
  verify.add_option("-c,--collective", verifying.what, "the collective, or all")->capture_default_str();
  verify.add_option("-r,--ranks", verifying.ranks, "number of ranks, or a range")->capture_default_str();
  verify.add_option("--nodes", verifying.nodes, "for two_level: the ranks on each node, such as 4 4 3")->delimiter(',');
  verify.add_option("--slices", verifying.slices, "slices per chunk")->capture_default_str();
  verify.add_option("--credits", verifying.credits, "slices in flight per channel")->capture_default_str();
  verify.add_flag("--in-place", verifying.in_place, "use the same memory for input and output");
  verify.add_flag("--direct", verifying.direct, "let peers read each other's memory");

  machine_arguments pricing, simulating;
  CLI::App& cost = *app.add_subcommand("cost", "print the terms of the alpha-beta-gamma cost model");
  machine_options(cost, pricing);
  CLI::App& simulate = *app.add_subcommand("simulate", "predict the time on any number of ranks");
  machine_options(simulate, simulating);
  simulate
      .add_option("--nodes", simulating.nodes, "for two_level: the ranks on each node, instead of numbers of ranks")
      ->delimiter(',')
      ->excludes(simulate.get_option("--ranks"));

  draw_arguments drawing;
  CLI::App& draw = *app.add_subcommand("draw", "draw what each rank does at each step");
  draw.add_option("algorithm", drawing.algorithm, "the algorithm")->required();
  draw.add_option("-c,--collective", drawing.what, "the collective")->required();
  draw.add_option("-r,--ranks", drawing.ranks, "number of ranks")->capture_default_str();
  draw.add_option("--root", drawing.root, "the root, if the collective has one")->capture_default_str();
  draw.add_flag("--ordered", drawing.ordered, "combine in rank order");
  draw.add_option("--svg", drawing.svg, "write an SVG file instead of text");

  simulator::pipeline_arguments piping;
  CLI::App& pipeline = *app.add_subcommand("pipeline", "compare schedules of pipeline parallelism, or draw one");
  simulator::pipeline_options(pipeline, piping);

  return run_tool(app, "tutti-sim", argc, argv, [&] {
    if (verify.parsed()) return verify_command(verifying);
    if (simulate.parsed()) return simulate_command(simulating);
    if (cost.parsed()) cost_command(pricing);
    else if (draw.parsed()) draw_command(drawing);
    else if (pipeline.parsed()) simulator::pipeline_command(piping);
    else list_command();
    return 0;
  });
}
