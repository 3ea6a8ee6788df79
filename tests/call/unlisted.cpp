// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// User-defined algorithms that the registry does not have: their own schedule runs, and ranks must agree on it.
// labels: threads waits
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "tutti/analyze/verify.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using tutti::testing::contains;

// All send to rank 0, which sends the result to all. It combines in the rotated order 1, 2, ..., 0, which no registered
// algorithm does, so the result shows which schedule ran.
struct star {
  static constexpr std::string_view name = "star";
};
// The same under the name of a registered algorithm, whose packets must not be mistaken for its own.
struct imposter {
  static constexpr std::string_view name = "one_shot";
};
struct crowded {
  static constexpr std::string_view name = "crowded";
};
struct chunkless {
  static constexpr std::string_view name = "chunkless";
};

// Rank 2 of 3 is forgotten: nobody waits for its message.
struct forgetful {
  static constexpr std::string_view name = "forgetful";
};
// Rank 2 of 3 waits for a message that nobody sends.
struct hopeful {
  static constexpr std::string_view name = "hopeful";
};

template <>
struct tutti::schedule<star, collective::all_reduce> : schedule_defaults {
  static constexpr bool direct = false;
  static constexpr bool direct_in_place = false;

  constexpr int steps(shape s, position) const { return s.ranks > 1 ? 2 : 0; }
  constexpr step at(shape s, position me, int i) const {
    if (me.rank == 0 && i == 0)
      return {.from = {1, 1, s.ranks}, .own = {space::input}, .keep = {space::output}, .complete = true};
    if (me.rank == 0) return {.to = others(s, 0), .give = {space::output}};
    if (i == 0) return {.to = one(0), .give = {space::input}};
    return {.from = one(0), .keep = {space::output}};
  }
};
template <>
struct tutti::schedule<star, collective::barrier> : schedule<star, collective::all_reduce> {};
template <>
struct tutti::schedule<imposter, collective::all_reduce> : schedule<star, collective::all_reduce> {};
template <>
struct tutti::schedule<crowded, collective::all_reduce> : schedule<star, collective::all_reduce> {
  constexpr int lanes(shape) const { return max_tracks + 1; }
};
template <>
struct tutti::schedule<chunkless, collective::all_reduce> : schedule<star, collective::all_reduce> {
  constexpr int chunks(shape) const { return 0; }
};
template <>
struct tutti::schedule<forgetful, collective::all_reduce> : schedule<star, collective::all_reduce> {
  constexpr step at(shape s, position me, int i) const {
    if (me.rank == 0 && i == 0) return {.from = one(1), .own = {space::input}, .keep = {space::output}};
    return schedule<star, collective::all_reduce>::at(s, me, i);
  }
};
template <>
struct tutti::schedule<hopeful, collective::all_reduce> : schedule<star, collective::all_reduce> {
  constexpr step at(shape s, position me, int i) const {
    if (me.rank == 0 && i == 1) return {.to = one(1), .give = {space::output}};
    return schedule<star, collective::all_reduce>::at(s, me, i);
  }
};

namespace {

// Returns the left operand, so the result is the contribution that was combined first. (Not commutative; the order of
// the schedule is the point here.)
struct first {
  static constexpr bool commutative = true;
  int operator()(int a, int) const { return a; }
};

// Takes longer than the timeout of the call.
struct slow {
  static constexpr bool commutative = true;
  int operator()(int a, int b) const {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return a + b;
  }
};

// The error of one rank; empty if none threw.
template <class F>
std::string failure_of(F f) {
  try {
    run_threads(3, f);
  } catch (error const& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("an algorithm of the user's runs its own schedule, whatever its name and the message's size") {
  run_threads(4, [](auto& comm) {
    for (std::size_t const count : {std::size_t{1}, std::size_t{100}, std::size_t{100'000}}) {
      auto const check = [&](auto call) {
        std::vector<int> v(count, comm.rank());
        call(v);
        for (int const x : v)
          if (x != 1) throw std::runtime_error("another schedule ran");
      };
      check([&](auto& v) { all_reduce<star>(comm, v, first{}); });
      check([&](auto& v) { all_reduce<imposter>(comm, v, first{}); });
    }
    barrier<star>(comm);
  });
}

TEST_CASE("ranks that do not agree on it are told so, with its name") {
  auto const against = [](auto other) {
    return failure_of([&](auto& comm) {
      std::vector<int> v(2);
      if (comm.rank() == 1) other(comm, v);
      else all_reduce<star>(comm, v);
    });
  };
  for (std::string const &text : {against([](auto& comm, auto& v) { all_reduce<imposter>(comm, v); }),
                                  against([](auto& comm, auto& v) { all_reduce(comm, v); })}) {
    INFO(text);
    CHECK(contains(text, "ranks disagree"));
    CHECK(contains(text, "calls all_reduce of 2 int with sum (star)"));
    CHECK(contains(text, "calls all_reduce of 2 int with sum (one_shot"));
  }
}

TEST_CASE("what it cannot do is refused in its name") {
  auto const refused = [](auto call) {
    return failure_of([&](auto& comm) {
      std::vector<int> v(2);
      call(comm, v);
    });
  };
  std::string text =
      refused([](auto& c, auto& v) { all_reduce<imposter>(c, v, sum{}, {.protocol = protocol::packet}); });
  CHECK_MESSAGE(contains(text, "protocol packet cannot carry this call"), text);
  text = refused([](auto& c, auto& v) { all_reduce<star>(c, v, sum{}, {.protocol = protocol::direct}); });
  CHECK_MESSAGE(contains(text, "protocol direct is not safe for star"), text);
  text = refused([](auto& c, auto& v) { all_reduce<crowded>(c, v); });
  CHECK_MESSAGE(contains(text, "crowded does not have 1 to 4 lanes times phases"), text);
  text = refused([](auto& c, auto& v) { all_reduce<chunkless>(c, v); });
  CHECK_MESSAGE(contains(text, "chunkless does not have 1 to 4 lanes times phases, or no chunk"), text);
}

TEST_CASE("where ranks make the same calls, an algorithm of the program's own is verified") {
  using namespace std::chrono_literals;
  std::string text = failure_of([](auto& comm) {
    std::vector<int> v(2);
    all_reduce<hopeful>(comm, v, sum{}, {.timeout = 200ms});
  });
  INFO(text);
  CHECK(contains(text, "did not complete within 0.2 s"));
  CHECK(contains(text, "all ranks have arrived"));
  CHECK(contains(text, "correct that algorithm"));
  CHECK(contains(text,
                 "call #1 is by hopeful, the program's own algorithm, which is wrong for 3 ranks: deadlock: rank 2"));
  text = failure_of([](auto& comm) {
    std::vector<int> v(2), w(3);
    all_reduce<forgetful>(comm, v);
    all_reduce<star>(comm, w);
  });
  INFO(text);
  CHECK(contains(text, "call #1 is by forgetful, the program's own algorithm, which is wrong for 3 ranks: "));
  text = failure_of([](auto& comm) {
    std::vector<int> v(2);
    all_reduce<star>(comm, v, slow{}, {.timeout = 200ms});
  });
  INFO(text);
  CHECK(
      contains(text, "call #1 is by star, the program's own algorithm, which the verifier finds correct for 3 ranks"));
  CHECK(contains(text, "let every rank wait for the calls that it starts"));
}
