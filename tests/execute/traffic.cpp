// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A slice travels through a slot and by reference, and a slice that is not the expected one is reported.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tutti/execute/traffic.hpp"
#include "tutti/reduce/combine.hpp"
#include "tutti/transport/threads/loopback.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

using channels = traffic<loopback, int>;

struct pair {
  explicit pair(tutti::detail::access const& how) : a(from, &references_a, how, 7), b(to, &references_b, how, 7) {}

  std::shared_ptr<loopback::hub> hub = std::make_shared<loopback::hub>(2, 1);
  loopback from{hub, 0}, to{hub, 1};
  reference_list references_a, references_b;
  channels a, b;

  void send(std::vector<int> const& values, bool more) {
    int* const place = a.claim(1, 0, values.size());
    REQUIRE(place != nullptr);
    auto const copies = [](int const* const* sources, int, int* const* destinations, int, std::size_t n, stage) {
      std::copy_n(sources[0], n, destinations[0]);
    };
    a.write(copies, values.data(), place, values.size(), false);
    a.publish(1, 0, values.size(), more);
  }
};

// Whether the only slice of a message, or the first of several, has arrived.
bool has_arrived(channels& at, std::size_t n, bool more, channels::view& out) {
  message_slice const slice{{0, n}, more};
  return at.arrived(0, 0, slice, [&] { return slice; }, out);
}

}  // namespace

TEST_CASE("a slice through a slot arrives as it was when it was sent") {
  pair p({.slice = loopback::slice_bytes});
  channels::view view{};
  CHECK_FALSE(has_arrived(p.b, 100, false, view));
  std::vector<int> values(100, 5);
  CHECK_FALSE(p.a.refers(values.data(), 100));
  p.send(values, false);
  values.assign(100, 6);
  REQUIRE(has_arrived(p.b, 100, false, view));
  CHECK(view.data[99] == 5);
  CHECK_FALSE(view.foreign);
  p.b.release(0, 0);
  CHECK(p.a.settled());
  CHECK_FALSE(p.b.found());
}

TEST_CASE("memory that is referred to is read in place, and settled when it was read") {
  pair p({.refers = true, .slice = loopback::slice_bytes});
  std::vector<int> const values(100, 5);
  CHECK_FALSE(
      p.a.refers(values.data(), inline_bytes / sizeof(int)));  // a message this short travels in the line of the flag
  REQUIRE(p.a.refers(values.data(), 100));
  REQUIRE(p.a.claim(1, 0, 100) != nullptr);
  p.a.refer(1, 0, values.data(), 100, false);
  channels::view view{};
  REQUIRE(has_arrived(p.b, 100, false, view));
  CHECK(view.data == values.data());
  CHECK(p.a.refers_to_any());
  CHECK_FALSE(p.a.all_read(values.data() + 50, 1));
  CHECK_FALSE(p.a.settled());
  p.b.release(0, 0);
  CHECK(p.a.all_read(values.data() + 50, 1));
  CHECK(p.a.settled());
}

TEST_CASE("every slice of a run is at its place in the message") {
  pair p({.refers = true, .slice = loopback::slice_bytes});
  std::vector<int> const values(250, 5);
  message_slice const run{{1000, 250}, true};
  REQUIRE(p.a.claim(1, 0, 250) != nullptr);
  p.a.refer(1, 0, values.data(), 250, true);
  channels::view view{};
  for (std::size_t const begin : {0u, 100u, 200u}) {
    message_slice const slice{{1000 + begin, begin < 200 ? 100u : 50u}, true};
    REQUIRE(p.b.arrived(0, 0, slice, [&] { return run; }, view));
    CHECK(view.data == values.data() + begin);
    CHECK(view.in_run);
  }
  REQUIRE(p.b.arrived(0, 0, run, [&] { return run; }, view));
  CHECK(view.data == values.data());
  CHECK_FALSE(view.in_run);
  CHECK_FALSE(p.b.found());
}

TEST_CASE("a run after which more or less follows is a violation") {
  pair p({.refers = true, .slice = loopback::slice_bytes});
  std::vector<int> const values(250, 5);
  REQUIRE(p.a.claim(1, 0, 250) != nullptr);
  p.a.refer(1, 0, values.data(), 250, false);
  channels::view view{};
  CHECK_FALSE(p.b.arrived(0, 0, {{0, 100}, true}, [] { return message_slice{{0, 250}, true}; }, view));
  CHECK(p.b.found().bytes == 1000);
  CHECK_FALSE(p.b.found().more);
  CHECK(p.b.found().expected == 1000);
  CHECK(p.b.found().expected_more);
}

TEST_CASE("a slice of another length, or with more to follow, is a violation") {
  pair p({.slice = loopback::slice_bytes});
  p.send({1, 2, 3}, true);
  channels::view view{};
  SUBCASE("length") {
    CHECK_FALSE(has_arrived(p.b, 4, true, view));
    CHECK(p.b.found().bytes == 12);
    CHECK(p.b.found().expected == 16);
  }
  SUBCASE("more") {
    CHECK_FALSE(has_arrived(p.b, 3, false, view));
    CHECK(p.b.found().more);
    CHECK_FALSE(p.b.found().expected_more);
  }
  CHECK(p.b.found().peer == 0);
  CHECK_FALSE(p.b.found().other_call);
}

TEST_CASE("a slice of another call is a violation") {
  pair p({.slice = loopback::slice_bytes});
  p.send({1, 2, 3}, false);
  channels later(p.to, &p.references_b, {.slice = loopback::slice_bytes}, 8);
  channels::view view{};
  CHECK_FALSE(has_arrived(later, 3, false, view));
  CHECK(later.found().other_call);
}

TEST_CASE("memory that cannot be fetched is a violation") {
  pair p({.refers = true, .pulls = true, .slice = loopback::slice_bytes});
  int const theirs = 0;
  int ours = 0;
  CHECK_FALSE(p.b.fetch(0, &theirs, &ours, 1));
  CHECK(p.b.found().refused != 0);
}
