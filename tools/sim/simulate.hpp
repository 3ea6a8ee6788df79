// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti-sim simulate and tutti-sim cost: times on a machine.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "../complain.hpp"
#include "machines.hpp"
#include "schedules.hpp"
#include "tutti/analyze/cost.hpp"
#include "two_level.hpp"

namespace simulator {

using namespace tutti::analyze;

inline std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
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
  std::vector<CLI::Option*> sizes{};  // of messages
  model machine{.alpha = 3.64e-6, .beta = 4e-11, .gamma = 1e-11, .gap = 1e-7};
};

inline void machine_options(CLI::App& to, machine_arguments& a) {
  to.add_option("algorithm", a.algorithms, "algorithms, or all")->capture_default_str();
  to.add_option("-c,--collective", a.what, "the collective")->capture_default_str();
  to.add_option("-r,--ranks", a.ranks, "numbers of ranks, such as 2,8")
      ->delimiter(',')
      ->allow_extra_args(false)  // an algorithm may follow
      ->capture_default_str();
  a.sizes = {to.add_option("-b,--bytes", a.bytes, "size of the message, such as 8, 64KiB, 1GiB; a barrier has none"),
             to.add_option("-s,--slice", a.slice, "largest slice in bytes; 0: messages are not sliced")};
  for (auto* const size : a.sizes) size->capture_default_str()->transform(CLI::AsSizeValue(false));
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
  for (auto const& m : machines()) known += fmt::format("\n{}: {}", m.name, m.text);
  auto* const machine = to.add_option("--machine", a.named, "a machine, instead of the times above:" + known);
  for (auto* const time : times) machine->excludes(time);
}

inline void check(machine_arguments& a) {
  if (collective_named(a.what) == tutti::collective::barrier) {
    for (auto const* const size : a.sizes)
      if (size->count() > 0) refuse("the messages of a barrier are empty", "leave out " + size->get_name());
    a.bytes = 0;
  }
  for (std::string const& one : a.algorithms)
    if (!one.empty() && one.find_first_not_of("0123456789") == one.npos)
      refuse(fmt::format("\"{}\" is not an algorithm", one), "write numbers of ranks with commas: -r 2,8");
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
  for (auto const& one : machines()) {
    if (a.named == one.name) return void(m = one.times);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
  }
  refuse(fmt::format("\"{}\" is not a machine", a.named), "the machines are: " + known);
}

// The row of two_level, on nodes of the machine or of the sizes that were given, and its parts.
inline std::string simulate_two_levels(machine_arguments const& a, std::vector<int> const& ranks) {
  collective const what = collective_named(a.what);
  std::string parts;
  fmt::print("{:<20}", name(algorithm_id::two_level));
  for (int const p : ranks) {
    auto const nodes = a.nodes.empty() ? nodes_of(p, a.machine.enclosures.front().ranks) : nodes_of_sizes(a.nodes);
    auto const times = simulate_two_level(what, nodes, p, {a.bytes, a.slice}, a.machine);
    double sum = 0;
    for (auto const& t : times) sum += t.seconds;
    fmt::print("{:>14}", time_text(sum));
    parts += fmt::format("two_level, {} ranks on {}: {}\n", p, nodes.text(), parts_text(times, time_text));
  }
  fmt::print("\n");
  return parts;
}

// Returns the exit code: 1 if nothing could be simulated.
inline int simulate_command(machine_arguments a) {
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
  complain("\n{}", complaints);
  return any ? 0 : 1;
}

inline void cost_command(machine_arguments a) {
  check(a);
  std::vector<served> const rows = chosen(a.algorithms, a.what);
  fmt::print(
      "T = hops * alpha + sent * bytes * beta + combined * bytes * gamma, for {:.0f} bytes, alpha {:g} s, beta {:g} "
      "s/byte, gamma {:g} s/byte.\nThe simulated time has the gap ({:g} s), slices and nodes as well, and less where "
      "the "
      "longest paths of the three terms differ.\n\n{:<20}{:>8}{:>8}{:>10}{:>10}{:>14}{:>14}\n",
      a.bytes, a.machine.alpha, a.machine.beta, a.machine.gamma, a.machine.gap, a.what, "ranks", "hops", "sent",
      "combined", "T", "simulated");
  for (served const& x : rows)
    for (int const p : a.ranks) {
      terms const t = terms_of(x.schedule, {p, a.root});
      fmt::print("{:<20}{:>8}{:>8.0f}{:>10.3f}{:>10.3f}{:>14}{:>14}\n", name(x.id), p, t.hops, t.sent, t.combined,
                 time_text(t.seconds(a.bytes, a.machine)),
                 time_text(predict(x.schedule, {p, a.root}, {a.bytes, a.slice}, a.machine)));
    }
}

}  // namespace simulator
