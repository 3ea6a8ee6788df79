// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The waiting loop ends when the work is done, when the deadline passes, and when a nap gives up.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "tutti/core/wait.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace std::chrono_literals;

namespace {
constexpr patience brief{3, std::chrono::microseconds{10}};
deadline const far = deadline::after(1h);
}  // namespace

TEST_CASE("completed work is not waited for") {
  int naps = 0;
  CHECK(wait_until_done([] { return progress::done; }, brief, far, [&](auto&&) { return ++naps < 0; }));
  CHECK(naps == 0);
}

TEST_CASE("work that makes progress is polled until it is done") {
  int polls = 0;
  CHECK(wait_until_done([&] { return ++polls < 1000 ? progress::moved : progress::done; }, brief, far,
                        [](auto&&) { return false; }));
  CHECK(polls == 1000);
}

TEST_CASE("work without progress naps, and ends when it makes progress again") {
  int naps = 0;
  auto const poll = [&] { return naps < 5 ? progress::stuck : progress::done; };
  CHECK(wait_until_done(poll, brief, far, [&](auto&&) { return ++naps < 100; }));
  CHECK(naps == 5);
}

TEST_CASE("work that completes during a nap is not polled again") {
  int polls = 0;
  bool napped = false;
  auto const poll = [&] {
    ++polls;
    return napped ? progress::done : progress::stuck;
  };
  CHECK(wait_until_done(poll, brief, far, [&](auto const& ready) {
    napped = true;
    polls = 0;
    CHECK(ready());
    return ready();
  }));
  CHECK(polls == 1);
}

TEST_CASE("a rank whose peers share its core stops spinning early, and does not yield if that does not reach them") {
  static int asked = 0;
  auto const waited = [](patience const& how) {
    int polls = 0;
    asked = 0;
    wait_until_done([&] { return ++polls, progress::stuck; }, how, far, [](auto&&) { return false; });
    return polls;
  };
  bool shared = true;
  patience how{patience_with_cores.spins, 0us,
               [](void const* peers) noexcept { return ++asked, *static_cast<bool const*>(peers); }, &shared};
  CHECK(waited(how) == spins_before_asking);
  CHECK(asked == 1);
  how.yields = 5ms;
  CHECK(waited(how) > spins_before_asking);
  how.yields_reach_peers = false;
  CHECK(waited(how) == spins_before_asking);
  shared = false;
  CHECK(waited(how) > patience_with_cores.spins);
  how.yields = 0us;
  CHECK(waited(how) == patience_with_cores.spins);
  CHECK(asked == 1);
}

TEST_CASE("a rank that yields drives the work in the background") {
  static int driven = 0;
  auto* const before = background_work.exchange([]() noexcept { ++driven; });
  ++background_jobs;
  int polls = 0;
  auto const poll = [&] { return driven > 0 || ++polls == 100'000 ? progress::done : progress::stuck; };
  CHECK(wait_until_done(poll, patience{1, 1h}, far, [](auto&&) { return false; }));
  --background_jobs;
  background_work = before;
  CHECK(driven == 1);
}

TEST_CASE("the deadline, or a nap that gives up, ends the wait") {
  auto const never = [] { return progress::stuck; };
  CHECK_FALSE(wait_until_done(never, brief, deadline::after(20ms), [](auto&&) { return true; }));
  CHECK_FALSE(wait_until_done(never, brief, deadline::after(20ms), [](auto&&) {}));
  CHECK_FALSE(wait_until_done(never, brief, far, [](auto&&) { return false; }));
}

TEST_CASE("a countdown starts when it is first read") {
  countdown left(50ms);
  std::this_thread::sleep_for(60ms);
  CHECK_FALSE(left.passed());
  std::this_thread::sleep_for(60ms);
  CHECK(left.passed());
}

TEST_CASE("a countdown does not run while nobody checks it for long, as in a process that is stopped") {
  countdown time(300ms);
  CHECK_FALSE(time.passed());
  std::this_thread::sleep_for(600ms);
  CHECK_FALSE(time.passed());
  while (!time.passed()) std::this_thread::sleep_for(10ms);  // but it does end
}

TEST_CASE("a pause while a wait spins or yields, or between two waits of one countdown, does not count") {
  countdown time(300ms);
  int polls = 0;
  auto const slow = [&] {
    if (++polls == 2) std::this_thread::sleep_for(600ms);
    return polls < 100 ? progress::stuck : progress::done;
  };
  auto const nap = [](auto&&) { return true; };
  CHECK(wait_until_done(slow, brief, time, nap));
  std::this_thread::sleep_for(600ms);
  polls = 10;
  CHECK(wait_until_done(slow, brief, time, nap));
}
