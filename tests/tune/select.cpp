// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The choice is always one that may be made, comes from the rule that fits, and from the model where none does.
#include "tutti/tune/select.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "support/sanitized.hpp"
#include "tutti/tune/find.hpp"
#include "tutti/tune/shipped.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

constexpr std::array some_rules{
    rule{.what = collective::all_reduce, .max_ranks = 4, .up_to = 512, .algorithm = algorithm_id::one_shot},
    rule{.what = collective::all_reduce, .cores = occupancy::crowded, .algorithm = algorithm_id::binomial_tree},
    rule{.what = collective::all_reduce,
         .memory = reach::pulls,
         .algorithm = algorithm_id::two_shot,
         .how = protocol::pull,
         .nanoseconds = 53'210,
         .measured_at = 524'288},
    rule{.what = collective::all_reduce, .max_ranks = 8, .algorithm = algorithm_id::ring},
    rule{.what = collective::all_to_all, .algorithm = algorithm_id::bruck},
};
constexpr costs some_costs{.hop = 1'000'000, .message = 100'000, .sent = 100'000, .combined = 50'000};

tuning with_rules() {
  return {
      owned_table{"a machine", "2026-01-02", "by hand", some_costs, some_costs, {some_rules.begin(), some_rules.end()}},
      "the table of this test"};
}

}  // namespace

TEST_CASE("whatever the problem, the choice serves it") {
  for (int ranks = 2; ranks <= 64; ranks += testing::sanitized ? 9 : ranks < 34 ? 1 : 15)
    for (bool const custom : {false, true}) {
      tuning tuned = custom ? with_rules() : tuning();
      for (collective const c : every_collective)
        for (std::size_t bytes = 0; bytes < std::size_t{1} << 40; bytes = bytes * 16 + 8)
          for (int flags = 0; flags < 16; ++flags) {
            problem const p{c, bytes, ranks, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, (flags & 8) != 0};
            choice const chosen = tuned.select(p);
            INFO(name(c), ", ", ranks, " ranks, ", bytes, " bytes, flags ", flags);
            REQUIRE(chosen.algorithm != algorithm_id::automatic);
            REQUIRE(objection(chosen.algorithm, p).empty());
            REQUIRE((chosen.how == protocol::automatic || (chosen.how == protocol::pull && p.pulls)));
            REQUIRE(!chosen.why.empty());
          }
    }
}

TEST_CASE("the schedules with a peer for each rank are those that are too wide for many ranks") {
  for_each_schedule([](algorithm_id id, collective c, dynamic_schedule s) {
    shape const many{max_ranks + 2};
    int widest = 0;
    for (int const rank : {0, 1, many.ranks / 2, many.ranks - 1})
      for (int track = 0; track < s.lanes(many) * s.phases(many); ++track) {
        position const me{rank, track / s.phases(many), track % s.phases(many)};
        for (int i = 0; i < s.steps(many, me); ++i) {
          step const now = s.at(many, me, i);
          widest = std::max({widest, now.from.count, now.to.count});
        }
      }
    INFO(name(id), " ", name(c), ": ", widest);
    CHECK(has_wide_steps(s) == (widest > max_ranks));
  });
}

TEST_CASE("the work of schedules is searched once in a process") {
  problem const p{.what = collective::all_gather, .bytes = 64, .ranks = 12, .messages = true};
  static int looked = 0;
  problem counted = p;
  counted.schedules = [](algorithm_id id, collective c) { return ++looked, find_schedule(id, c); };
  CHECK(tuning().select(counted).algorithm == tuning().select(p).algorithm);
  int const once = looked;
  tuning().select(counted);
  CHECK(looked == once);
}

TEST_CASE("objections say why") {
  CHECK(objection(algorithm_id::ring, {collective::all_reduce, 8, 4, false}).find("out of rank order") !=
        std::string_view::npos);
  CHECK(objection(algorithm_id::bruck, {collective::barrier, 1, 4}).find("does not serve") != std::string_view::npos);
  CHECK(objection(algorithm_id::bruck, {collective::all_to_all, 8, 4, true, true}).find("_v form") !=
        std::string_view::npos);
}

TEST_CASE("the first rule that fits decides") {
  tuning tuned = with_rules();
  auto const chosen = [&](problem const& p) { return tuned.select(p).algorithm; };
  CHECK(chosen({collective::all_reduce, 512, 4}) == algorithm_id::one_shot);
  CHECK(chosen({collective::all_reduce, 513, 4}) == algorithm_id::ring);
  CHECK(chosen({collective::all_reduce, 513, 4, true, false, true}) == algorithm_id::binomial_tree);
  choice const pulled = tuned.select({collective::all_reduce, 1 << 20, 8, true, false, false, true});
  CHECK(pulled.algorithm == algorithm_id::two_shot);
  CHECK(pulled.how == protocol::pull);
  // Rules that may not be followed are passed over, down to the model.
  CHECK(chosen({collective::all_reduce, 8, 8, false}) != algorithm_id::ring);
  CHECK(chosen({collective::all_to_all, 8, 4}) == algorithm_id::bruck);
  CHECK(chosen({collective::all_to_all, 8, 4, true, true}) != algorithm_id::bruck);
}

TEST_CASE("where no rule fits, the model decides") {
  tuning tuned = with_rules();
  auto const chosen = [&](collective c, std::size_t bytes, int ranks) {
    choice const out = tuned.select({c, bytes, ranks});
    CHECK(out.measured == nullptr);
    CHECK(out.picoseconds <= out.runner_up_picoseconds);
    CHECK(out.runner_up != out.algorithm);
    return out.algorithm;
  };
  // Few hops for small messages, the least bytes for large ones, and no root for a barrier.
  CHECK(chosen(collective::all_reduce, 8, 32) == algorithm_id::one_shot);
  CHECK(chosen(collective::all_reduce, 4096, 32) == algorithm_id::recursive_doubling);
  CHECK(chosen(collective::all_reduce, 64 << 20, 32) == algorithm_id::two_shot);
  CHECK(chosen(collective::barrier, 0, 32) != algorithm_id::binomial_tree);
  CHECK(chosen(collective::all_gather, 1 << 20, 16) == algorithm_id::one_shot);
  CHECK(chosen(collective::scan, 4096, 16) == algorithm_id::recursive_doubling);
  CHECK(chosen(collective::scan, 1 << 20, 16) == algorithm_id::ring);  // slices stream along the chain
}

TEST_CASE("where no rule fits, shared memory is judged by what each core reads and writes") {
  auto const work = [](algorithm_id id, collective c) { return work_of(find_schedule(id, c), c, 8).core; };
  // A block is read, kept and passed on in one pass; otherwise it is copied into a slot for every other rank.
  CHECK(work(algorithm_id::ring, collective::all_gather).staged == 7 * 3 + 2);
  CHECK(work(algorithm_id::one_shot, collective::all_gather).staged == 7 * 4 + 2);
  CHECK(work(algorithm_id::one_shot, collective::all_gather).in_place == 7 * 2 + 2);
  CHECK(work(algorithm_id::one_shot, collective::all_gather).fetched == 7);
  CHECK(work(algorithm_id::one_shot, collective::all_gather).besides == 2);
  // Eight contributions are read in one pass, or added one by one.
  core_work const at_once = work(algorithm_id::one_shot, collective::reduce_scatter),
                  in_turn = work(algorithm_id::recursive_halving, collective::reduce_scatter);
  CHECK(at_once.combined == in_turn.combined);
  CHECK(at_once.staged < in_turn.staged);
  // The root of a broadcast copies the message for every other rank, or every other rank reads the root's memory.
  core_work const root = work(algorithm_id::one_shot, collective::broadcast);
  CHECK(root.staged == 14);
  CHECK(root.in_place == 2);
  CHECK(root.served == 7);
}

TEST_CASE("on machines with more cores than were measured, the built-in tables choose what other libraries do") {
  for (shipped_table const& one : shipped_tables)
    for (int const ranks : {4, 8, 16, 32, 64}) {
      tuning tuned(one.table);
      auto const chosen = [&](collective c, std::size_t bytes, bool pulls = true) {
        return tuned.select({.what = c, .bytes = bytes, .ranks = ranks, .pulls = pulls});
      };
      CAPTURE(one.table.machine);
      CAPTURE(ranks);
      // A packet is written once for all who read it.
      CHECK(chosen(collective::broadcast, 8).algorithm == algorithm_id::one_shot);
      if (ranks <= 16)
        for (collective const c : {collective::all_reduce, collective::all_gather, collective::barrier})
          CHECK(chosen(c, 8).algorithm == algorithm_id::one_shot);
      // Bytes decide: every rank combines a part, or slices stream along a chain.
      CHECK(chosen(collective::all_reduce, 64 << 20).algorithm == algorithm_id::two_shot);
      CHECK(chosen(collective::reduce_scatter, 1 << 20).algorithm == algorithm_id::one_shot);
      CHECK(chosen(collective::reduce, 64 << 20).algorithm == algorithm_id::ring);
      CHECK(chosen(collective::scan, 64 << 20).algorithm == algorithm_id::ring);
      CHECK(chosen(collective::all_to_all, 1 << 20).algorithm == algorithm_id::one_shot);
      // Many ranks copy from the root faster than the root copies for all of them.
      if (ranks >= 8) {
        CHECK(chosen(collective::scatter, 1 << 20).algorithm == algorithm_id::one_shot);
        CHECK(chosen(collective::scatter, 1 << 20).how == protocol::pull);
      }
      CHECK(chosen(collective::scatter, 4096).how == protocol::automatic);
      CHECK(chosen(collective::scatter, 1 << 20, false).how == protocol::automatic);
    }
}

TEST_CASE("times that are measured at start do not choose the algorithm on one node, whose sums keep their bits") {
  tuning const before;
  tuning noisy = before;
  link_times now;
  for (distance const d : every_distance) now[d] = {7'000'000, 900'000};
  noisy.take_links(now);
  for (collective const c : every_collective)
    for (int const ranks : {2, 3, 8, 32})
      for (std::size_t bytes = 8; bytes < std::size_t{1} << 30; bytes *= 4)
        for (bool const crowded : {false, true}) {
          problem const p{.what = c, .bytes = bytes, .ranks = ranks, .crowded = crowded, .pulls = true};
          CHECK(tuning(before).select(p).algorithm == noisy.select(p).algorithm);
        }
}

TEST_CASE("over nodes, rules for nodes decide") {
  auto const on_nodes = [](int nodes, node_order order) {
    return problem{.what = collective::all_reduce,
                   .bytes = 4096,
                   .ranks = 8,
                   .messages = true,
                   .native = true,
                   .nodes = order,
                   .node_count = nodes};
  };
  auto const with = [](reach memory, algorithm_id id) {
    return rule{.what = collective::all_reduce, .memory = memory, .algorithm = id};
  };
  tuning tuned(
      {"a machine",
       "2026-01-02",
       "by hand",
       some_costs,
       some_costs,
       {with(reach::any, algorithm_id::one_shot), with(reach::messages, algorithm_id::ring),
        with(reach::nodes, algorithm_id::two_level), with(reach::scattered, algorithm_id::recursive_doubling)}},
      "the table of this test");
  CHECK(tuned.select(on_nodes(1, node_order::unknown)).algorithm == algorithm_id::ring);
  CHECK(tuned.select(on_nodes(2, node_order::consecutive)).algorithm == algorithm_id::two_level);
  CHECK(tuned.select(on_nodes(2, node_order::scattered)).algorithm == algorithm_id::recursive_doubling);
}

TEST_CASE("one level or two, by the links between ranks") {
  problem const small{.what = collective::all_reduce,
                      .bytes = 64,
                      .ranks = 32,
                      .messages = true,
                      .native = true,
                      .nodes = node_order::consecutive,
                      .node_count = 4};
  auto const table_with = [](link_time node, link_time messages, link_time across) {
    owned_table out{"a machine", "2026-01-02", "by hand", some_costs, some_costs, {}};
    out.links[distance::node] = node;
    out.links[distance::messages] = messages;
    out.links[distance::across] = across;
    return tuning(out, "the table of this test");
  };
  // From this size on, two levels.
  auto const crossover = [&](tuning tuned, problem p) {
    for (p.bytes = 8; p.bytes < std::size_t{1} << 30; p.bytes *= 2)
      if (tuned.select(p).algorithm == algorithm_id::two_level) break;
    return p.bytes;
  };
  link_time const memory{200'000, 30'000}, messages{500'000, 100'000};

  SUBCASE("a slow link between nodes speaks for two levels, a slow node for one") {
    CHECK(table_with(memory, messages, {30'000'000, 8'000'000}).select(small).algorithm == algorithm_id::two_level);
    CHECK(table_with({60'000'000, 30'000}, messages, {1'000'000, 100'000}).select(small).algorithm ==
          algorithm_id::native);
  }
  SUBCASE("the slower the bytes between nodes, the smaller the messages that go in two levels") {
    // Where ranks are side by side, recursive_halving sends no more from node to node than two levels do.
    problem scattered = small;
    scattered.nodes = node_order::scattered;
    std::size_t last = std::size_t{1} << 30;
    for (std::uint64_t const byte : {50'000u, 500'000u, 5'000'000u}) {
      std::size_t const here = crossover(table_with({60'000'000, 30'000}, messages, {1'000'000, byte}), scattered);
      CHECK(here < last);
      last = here;
    }
  }
  SUBCASE("an all_to_all goes in two levels only where messages cost more than their bytes") {
    // The largest blocks that go in two levels.
    auto const last = [](tuning tuned, problem p) {
      std::size_t out = 0;
      for (p.bytes = 8; p.bytes < std::size_t{1} << 30; p.bytes *= 2)
        if (tuned.select(p).algorithm == algorithm_id::two_level) out = p.bytes;
      return out;
    };
    problem exchange = small;
    exchange.what = collective::all_to_all;
    std::size_t const quick = last(table_with(memory, messages, {2'000'000, 100'000}), exchange);
    std::size_t const slow = last(table_with(memory, messages, {40'000'000, 100'000}), exchange);
    CHECK(quick < slow);
    CHECK(slow < std::size_t{1} << 24);
    exchange.largest_node = 9;  // the blocks of a node pass through one rank
    CHECK(last(table_with(memory, messages, {40'000'000, 100'000}), exchange) < slow);
  }
  SUBCASE("scans go in two levels where ranks are in the order of nodes, and also combine fewer bytes across") {
    for (collective const c : {collective::scan, collective::exclusive_scan})
      for (std::size_t const bytes : {8u, 1u << 20}) {
        problem prefix = small;
        prefix.what = c;
        prefix.bytes = bytes;
        tuning tuned = table_with(memory, messages, {10'000'000, 1'000'000});
        CHECK(tuned.select(prefix).algorithm == algorithm_id::two_level);
        prefix.nodes = node_order::scattered;
        CHECK(tuned.select(prefix).algorithm == algorithm_id::native);
      }
  }
  SUBCASE("of the _v forms, those go in two levels whose counts all ranks know") {
    for (collective const c : every_collective) {
      if (!by_block(c)) continue;
      problem ragged = small;
      ragged.what = c;
      ragged.bytes = 4096;
      ragged.ragged = true;
      bool const known = c == collective::all_gather || c == collective::reduce_scatter;
      tuning tuned = table_with(memory, messages, {10'000'000, 1'000'000});
      CHECK((tuned.select(ragged).algorithm == algorithm_id::two_level) == known);
    }
  }
  SUBCASE("where each node has one rank, one level") {
    problem spread = small;
    spread.node_count = spread.ranks;
    tuning tuned = table_with(memory, messages, {10'000'000, 1'000'000});
    for (collective const c : every_collective)
      for (bool const library : {true, false}) {
        spread.what = c;
        spread.native = library;
        CHECK(tuned.select(spread).algorithm != algorithm_id::two_level);
      }
  }
  SUBCASE("ranks that share cores take turns at the network") {
    problem apart = small;
    apart.native = false;
    problem crowded = apart;
    crowded.crowded = true;
    tuning const tuned = table_with({}, messages, {1'000'000, 1'000'000});
    CHECK(crossover(tuned, crowded) < crossover(tuned, apart));
  }
  SUBCASE("all ranks meet before the library serves them, which speaks for two levels") {
    tuning meeting = table_with({}, messages, {1'000'000, 1'000'000}), at_once = meeting;
    at_once.meets = false;
    CHECK(crossover(meeting, small) < crossover(at_once, small));
  }
  SUBCASE("where two levels cannot be, one") {
    problem of_maps = small;
    of_maps.nodes = node_order::scattered;
    of_maps.commutative = false;
    tuning tuned = table_with(memory, messages, {30'000'000, 8'000'000});
    CHECK(tuned.select(of_maps).algorithm == algorithm_id::native);
    of_maps.wide = true;
    CHECK(is_scheduled(tuned.select(of_maps).algorithm));
    problem alone = small;
    alone.node_count = 1;
    CHECK(tuned.select(alone).algorithm == algorithm_id::native);
  }
  SUBCASE("the library rounds partial results, so it does not serve operations that must combine all at once") {
    tuning tuned = table_with(memory, messages, {30'000'000, 8'000'000});
    for (int const nodes : {1, 3}) {
      problem ordered = small;
      ordered.node_count = nodes;
      ordered.commutative = false;
      ordered.at_once = true;
      CHECK(objection(tuned.select(ordered).algorithm, ordered) == "");
    }
  }
  SUBCASE("every collective on any nodes has a choice") {
    tuning tuned = table_with(memory, messages, {30'000'000, 8'000'000});
    for (collective const c : every_collective)
      for (int const ranks : {2, 3, 7, 64, 24'756})
        for (int const nodes : {1, 2, 3, 1000})
          for (node_order const order : {node_order::consecutive, node_order::scattered})
            for (bool const wide : {false, true}) {
              if (nodes > ranks) continue;
              problem const p{.what = c,
                              .bytes = 100'000,
                              .ranks = ranks,
                              .messages = true,
                              .native = true,
                              .wide = wide,
                              .nodes = order,
                              .node_count = nodes,
                              .largest_node = ranks % nodes == 0 ? 0 : ranks - nodes + 1};
              INFO(name(c), ", ", ranks, " ranks on ", nodes, " nodes");
              CHECK(objection(tuned.select(p).algorithm, p).empty());
            }
  }
  SUBCASE("uneven nodes take as long as the largest, and longer, the larger it is") {
    auto const time_in_two_levels = [&](problem const& p) {
      choice const c = table_with(memory, messages, {30'000'000, 8'000'000}).select(p);
      return c.algorithm == algorithm_id::two_level ? c.picoseconds : c.runner_up_picoseconds;
    };
    for (collective const c : every_collective) {
      if (c == collective::all_to_all) continue;  // most of which stays in a node that has most ranks
      problem p = small;
      p.what = c;
      p.bytes = c == collective::barrier ? 0 : 16 << 10;
      std::uint64_t const even = time_in_two_levels(p);
      p.largest_node = 12;
      std::uint64_t const uneven = time_in_two_levels(p);
      p.largest_node = 29;
      INFO(name(c), ": ", even, ", ", uneven, " and ", time_in_two_levels(p));
      CHECK(even <= uneven);
      CHECK(uneven <= time_in_two_levels(p));
      if (c != collective::barrier) CHECK(even < time_in_two_levels(p));
    }
  }
  SUBCASE("and the reason says both times") {
    tuning tuned = table_with(memory, messages, {30'000'000, 8'000'000});
    std::string const reason = tuned.reason(tuned.select(small), "a machine");
    CHECK(reason.find("estimated: ") == 0);
    CHECK(reason.find(" us, next native with ") != std::string::npos);
  }
}

TEST_CASE("where ranks are more than a step may have peers, no algorithm with such a step is chosen") {
  for (collective const c : every_collective)
    for (bool const ragged : {false, true}) {
      if (ragged && !by_block(c)) continue;
      problem const p{.what = c, .bytes = 64, .ranks = max_ranks + 1, .ragged = ragged, .messages = true, .many = true};
      INFO(name(c), ragged ? "_v" : "");
      algorithm_id const chosen = tuning().select(p).algorithm;
      CHECK(chosen != algorithm_id::one_shot);
      CHECK(chosen != algorithm_id::two_shot);
      bool const none = ragged && (c == collective::gather || c == collective::scatter);
      CHECK((chosen == algorithm_id::automatic) == none);
      CHECK(objection(algorithm_id::one_shot, p) ==
            "one of its steps communicates with all ranks, of which it supports at most 1024");
    }
}

TEST_CASE("the reason has the time, the table and the machine") {
  tuning tuned = with_rules();
  auto const reason = [&](problem const& p, std::string_view machine) {
    return tuned.reason(tuned.select(p), machine);
  };
  CHECK(reason({collective::all_reduce, 1 << 20, 8, true, false, false, true}, "a machine") ==
        "measured at 524288 bytes: 53.2 us; a rule of the table of this test, from a machine, 2026-01-02");
  std::string const estimated = reason({collective::broadcast, 8, 16}, "another machine");
  CHECK(estimated.find("estimated: ") == 0);
  CHECK(estimated.find(" us, next ") != std::string::npos);
  CHECK(estimated.find("no rule fits") != std::string::npos);
  CHECK(estimated.find("; this machine: another machine") != std::string::npos);
  CHECK(this_machine().find(" cores") != std::string::npos);
}
