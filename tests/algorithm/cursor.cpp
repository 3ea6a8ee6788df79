// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rules of a walk: where messages are cut, what is sent before what, and what a phase waits for.
#include "tutti/algorithm/cursor.hpp"

#include <doctest/doctest.h>

#include <cstddef>

#include "tutti/algorithm/registry.hpp"
#include "tutti/analyze/sizes.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

using sizes = analyze::even_chunks;
template <class S>
using walked = detail::walk<S, sizes>;
constexpr auto all = static_cast<std::size_t>(-1);

// Rank 0 sends two chunks in one message, and receives the first of them from itself.
struct two_chunks : schedule_defaults {
  int chunks(shape) const { return 2; }
  int steps(shape, position) const { return 1; }
  step at(shape, position me, int) const {
    if (me.rank == 0)
      return {
          .from = one(0), .own = {space::input}, .keep = {space::output}, .to = one(1), .give = {space::input, {0, 2}}};
    return {.from = one(0), .keep = {space::output, {0, 2}}};
  }
};

}  // namespace

TEST_CASE("a message is cut as a whole, across its chunks") {
  sizes const each{5};
  walked<two_chunks> const w({}, {2}, 0, each, 4, false);
  CHECK(w.tracks() == 1);
  CHECK(w[0].end == 3);
  region const give = w[0].now.give;
  for (std::size_t const s : {0u, 1u, 2u}) {
    detail::message_slice const part = w.slice(0, give, 0, s);
    CHECK(part.range == extent{4 * s, s == 2 ? 2u : 4u});
    CHECK(part.more == (s < 2));
    CHECK(w.travels(part, s));
  }
  // The kept part is shorter, and its last slice is empty.
  CHECK(w.slice(0, w[0].now.keep, 0, 1).range == extent{4, 1});
  CHECK_FALSE(w.travels(w.slice(0, w[0].now.keep, 0, 2), 2));
}

TEST_CASE("receiving stays behind sending") {
  sizes const each{5};
  walked<two_chunks> w({}, {2}, 0, each, 4, false);
  detail::cursor& c = w[0];
  CHECK_FALSE(c.may_receive(all));
  CHECK_FALSE(c.may_send(0));
  REQUIRE(c.may_send(1));
  c.sent_to_one();
  CHECK_FALSE(c.may_send(1));
  REQUIRE(c.may_receive(1));
  c.received_from_all();
  CHECK_FALSE(c.may_receive(all));
  while (c.may_send(all)) c.sent_to_one();
  while (c.may_receive(all)) c.received_from_all();
  REQUIRE(c.step_done());
  w.leave(c);
  CHECK(c.finished);
}

TEST_CASE("only the first slice of an empty message is announced") {
  sizes const none{0};
  walked<two_chunks> const silent({}, {2}, 1, none, 4, false), announced({}, {2}, 1, none, 4, true);
  CHECK(silent[0].step_done());
  CHECK(announced[0].end == 1);
  CHECK(announced.travels(announced.slice(0, announced[0].now.keep, 0, 0), 0));
  CHECK_FALSE(announced.travels({{0, 0}, false}, 1));
}

TEST_CASE("a pipelined schedule takes one slice through all steps") {
  using ring_all_reduce = schedule<ring, collective::all_reduce>;
  sizes const each{9};
  walked<ring_all_reduce> w({}, {3}, 0, each, 4, false);
  detail::cursor& c = w[0];
  CHECK(c.turns == 3);
  for (std::size_t turn = 0; turn < 3; ++turn)
    for (int i = 0; i < 5; ++i) {
      REQUIRE(c.turn == turn);
      REQUIRE(c.index == i);
      CHECK(c.end == turn + 1);
      while (c.may_send(all)) c.sent_to_one();
      while (c.may_receive(all)) c.received_from_all();
      REQUIRE(c.step_done());
      w.leave(c);
    }
  CHECK(c.finished);
}

TEST_CASE("a phase takes a slice when the phase before has finished it") {
  sizes const each{9};
  walked<schedule<two_shot, collective::all_reduce>> w({}, {3}, 0, each, 4, false);
  REQUIRE(w.tracks() == 2);
  detail::cursor& first = w[0];
  CHECK(w.available(0) == all);
  CHECK(w.available(1) == 0);
  first.sent_to_one();
  first.sent_to_one();
  CHECK(w.available(1) == 0);
  first.received_from_all();
  CHECK(w.available(1) == 1);
  while (first.may_send(all)) first.sent_to_one();
  while (first.may_receive(all)) first.received_from_all();
  w.leave(first);
  CHECK(w.available(1) == all);
}
