// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Clocks: exact where the answer is known, the same with and without symmetry, and fast for tens of thousands of ranks.
#include <doctest/doctest.h>

#include <chrono>
#include <sstream>
#include <string>
#include <vector>

#include "tutti/algorithm/registry.hpp"
#include "tutti/analyze/cost.hpp"
#include "tutti/analyze/draw.hpp"
#include "tutti/analyze/simulate.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::analyze;

TEST_CASE("a message takes alpha + n * beta") {
  auto const broadcast = find_schedule(algorithm_id::one_shot, collective::broadcast);
  model const m{.alpha = 3, .beta = 0.5, .gamma = 0};
  CHECK(simulate(broadcast, {2}, {10}, m).seconds == doctest::Approx(3 + 5));
  CHECK(simulate(broadcast, {4}, {10}, m).seconds == doctest::Approx(3 + 3 * 5));  // the root's port is one
  CHECK(simulate(broadcast, {4}, {10}, m).messages == 3);
  CHECK(simulate(broadcast, {1}, {10}, m).seconds == 0);
}

TEST_CASE("a gap keeps the sender's port busy") {
  auto const broadcast = find_schedule(algorithm_id::one_shot, collective::broadcast);
  CHECK(simulate(broadcast, {5}, {0}, {.alpha = 3, .beta = 0, .gamma = 0, .gap = 1}).seconds ==
        doctest::Approx(3 + 3 * 1));
}

TEST_CASE("slices overlap on their way") {
  auto const chain = find_schedule(algorithm_id::ring, collective::broadcast);
  model const m{.alpha = 0, .beta = 1, .gamma = 0};
  CHECK(simulate(chain, {4}, {12}, m).seconds == doctest::Approx(3 * 12));
  CHECK(simulate(chain, {4}, {12, 1}, m).seconds == doctest::Approx(12 + 2));
}

TEST_CASE("one rank stands for all exactly where all do the same, and its clock is theirs") {
  analyze::observer const none{.on_step = [](step_event const&) {}, .on_message = [](message_event const&) {}};
  model const m{.alpha = 1e-6, .beta = 1e-10, .gamma = 5e-11};
  for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule s) {
    for (int const ranks : {2, 3, 4, 5, 6, 7, 8, 13, 16, 24, 31}) {
      INFO(name(id), " ", name(c), ", ", ranks, " ranks");
      workload const work{1e5, 3e3};
      outcome const fast = simulate(s, {ranks}, work, m), full = simulate(s, {ranks}, work, m, &none);
      CHECK(full.simulated == ranks);
      CHECK(fast.seconds == doctest::Approx(full.seconds));
      CHECK(fast.messages == full.messages);
      if (id == algorithm_id::ring && c == collective::all_reduce) CHECK(fast.simulated == 1);
      if (rooted(c) && ranks > 2) CHECK(fast.simulated == ranks);
    }
  });
}

TEST_CASE("nodes: messages within one are nearer") {
  auto const ring_all_reduce = find_schedule(algorithm_id::ring, collective::all_reduce);
  model const m{.alpha = 10, .beta = 0, .gamma = 0, .enclosures = {{.ranks = 4, .alpha = 1}}};
  analyze::observer const none{.on_step = [](step_event const&) {}, .on_message = [](message_event const&) {}};
  outcome const by_node = simulate(ring_all_reduce, {16}, {8}, m),
                full = simulate(ring_all_reduce, {16}, {8}, m, &none);
  CHECK(by_node.simulated == 4);
  CHECK(by_node.seconds == doctest::Approx(full.seconds));
  // The slowest chunk crosses to another node as often as possible.
  CHECK(full.seconds < 30 * 10);
  CHECK(full.seconds > 7 * 10);
}

TEST_CASE("24,756 ranks: a ring's latency is 180 ms, a tree's a tenth of one") {
  model const m{.alpha = 3.636e-6, .beta = 4e-11, .gamma = 1e-11};
  auto const begin = std::chrono::steady_clock::now();
  outcome const around = simulate(schedule<ring, collective::all_reduce>{}, {24756}, {8}, m);
  outcome const tree = simulate(schedule<double_binary_tree, collective::all_reduce>{}, {24756}, {8}, m);
  double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  MESSAGE("ring ", around.seconds * 1e3, " ms (", around.messages, " messages), double binary tree ",
          tree.seconds * 1e3, " ms (", tree.messages, " messages); simulated in ", seconds, " s");
  CHECK(around.seconds == doctest::Approx(0.180).epsilon(0.001));
  CHECK(around.simulated == 1);
  CHECK(around.messages == doctest::Approx(24756.0 * 2 * 24755));
  CHECK(tree.seconds < 0.001);
  CHECK(tree.simulated == 24756);
}

TEST_CASE("what would take hours is refused") {
  try {
    simulate(find_schedule(algorithm_id::one_shot, collective::scan), {24756}, {8});
    FAIL("not refused");
  } catch (error const& e) {
    CHECK(e.code() == error_code::bad_argument);
    CHECK(std::string(e.what()).find("a simulation of more than 200000000 messages") != std::string::npos);
    CHECK(e.way_out().find("use fewer ranks") != std::string::npos);
  }
}

TEST_CASE("schedules whose cursors would leave their memory are refused") {
  using broadcast_by_ring = schedule<ring, collective::broadcast>;
  struct crowded : broadcast_by_ring {
    int lanes(shape) const { return max_tracks + 1; }
  };
  struct no_chunks : broadcast_by_ring {
    int chunks(shape) const { return 0; }
  };
  struct fewer_than_none : broadcast_by_ring {
    int steps(shape, position) const { return -1; }
  };
  auto const refused = [](auto const& schedule, char const* why) {
    CHECK_THROWS_WITH_AS(simulate(schedule, {2}, {8}), doctest::Contains(why), error);
    CHECK_THROWS_WITH_AS(terms_of(schedule, {2}), doctest::Contains(why), error);
    std::ostringstream drawing;
    CHECK_THROWS_WITH_AS(draw_text(drawing, schedule, {2}), doctest::Contains(why), error);
    CHECK(drawing.str().empty());
  };
  refused(crowded{}, "a wrong schedule cannot be simulated: 5 lanes of 1 phase are more than max_tracks");
  refused(no_chunks{}, "lanes, phases and chunks must be at least 1");
  refused(fewer_than_none{}, "rank 0 has -1 steps");
}

TEST_CASE("ranks share the links of what encloses them") {
  // Each rank sends to the one that is four further, in the next node.
  auto const shifted = find_schedule(algorithm_id::pairwise, collective::all_to_all);
  auto const time = [&](std::vector<enclosure> const& enclosures, int ranks = 8) {
    analyze::observer const none{.on_step = [](step_event const&) {}, .on_message = [](message_event const&) {}};
    model const m{.alpha = 0, .beta = 1, .gamma = 0, .enclosures = enclosures};
    outcome const fast = simulate(shifted, {ranks}, {1.0 * ranks}, m),
                  full = simulate(shifted, {ranks}, {1.0 * ranks}, m, &none);
    CHECK(fast.seconds == doctest::Approx(full.seconds));
    return full.seconds;
  };
  double const alone = time({});
  CHECK(alone == doctest::Approx(7));
  CHECK(time({{.ranks = 4, .beta = 1}}) == doctest::Approx(alone));
  CHECK(time({{.ranks = 4, .beta = 1, .uplink = 0.25}}) <
        1.25 * alone);  // as fast as the four ranks, which take turns at it
  // 16 messages leave a node, one at a time; meanwhile those inside have arrived.
  CHECK(time({{.ranks = 4, .beta = 1, .uplink = 1}}) >= 16);
  CHECK(time({{.ranks = 4, .beta = 1, .uplink = 1}}) < 16 + alone);
  // In 32 ranks, each half sends 16 * 16 messages to the other through a link that carries two at a time.
  CHECK(time({{.ranks = 4, .beta = 1}, {.ranks = 16, .beta = 1, .uplink = 0.5}}, 32) >= 128);
  // Within a node, messages are faster; between nodes, the slowest link decides.
  auto const one = find_schedule(algorithm_id::one_shot, collective::broadcast);
  model const m{.alpha = 0, .beta = 1, .gamma = 0, .enclosures = {{.ranks = 2, .alpha = 3, .beta = 0.1, .uplink = 2}}};
  CHECK(simulate(one, {2}, {10}, m).seconds == doctest::Approx(3 + 1));
  CHECK(simulate(one, {3}, {10}, m).seconds >= 20);
}
