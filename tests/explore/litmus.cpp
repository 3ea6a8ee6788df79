// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The model checker itself, on programs whose executions are known: it finds all that C++ allows, and no other.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "explore/explore.hpp"

using namespace tutti::testing::explore;

namespace {

using enum std::memory_order;

struct litmus {
  struct words {
    std::atomic<int> x{0}, y{0}, z{0};
    int data = 0;
  };
  words memory{};
  int seen[4][2]{};
  std::set<std::string> outcomes;

  // The outcomes are what threads have seen, in order.
  program program_of(std::vector<std::function<void(litmus&)>> const& threads) {
    return {.threads = static_cast<int>(threads.size()),
            .shared = {std::as_writable_bytes(std::span(&memory, 1))},
            .body = [this, threads](int t) { threads[static_cast<std::size_t>(t)](*this); },
            .at_end =
                [this] {
                  std::string all;
                  for (auto const& of_thread : seen)
                    for (int const value : of_thread) all += std::to_string(value);
                  outcomes.insert(all);
                },
            .name = [](void const*) { return place_name{"word", "word"}; }};
  }
  result run(std::vector<std::function<void(litmus&)>> const& threads) { return exhaustively(program_of(threads)); }
};

using words = litmus::words;
using steps = std::function<void(litmus&)>;

// A thread stores to one word and then loads another.
steps store_and_load(int t, std::atomic<int> words::* own, std::atomic<int> words::* other, std::memory_order store,
                     std::memory_order load, bool fenced = false) {
  return [=](litmus& l) {
    (l.memory.*own).store(1, store);
    if (fenced) std::atomic_thread_fence(seq_cst);
    l.seen[t][0] = (l.memory.*other).load(load);
  };
}

// A thread loads two words.
steps load_both(int t, std::atomic<int> words::* first, std::atomic<int> words::* second, std::memory_order order) {
  return [=](litmus& l) {
    l.seen[t][0] = (l.memory.*first).load(order);
    l.seen[t][1] = (l.memory.*second).load(order);
  };
}

steps write_data_and(steps then) {
  return [=](litmus& l) {
    l.memory.data = 42;
    then(l);
  };
}

// Loads x until `wanted` holds of it, and then the data.
steps read_data_after(int wanted, std::memory_order order, bool fenced = false) {
  return [=](litmus& l) {
    wait_for([&] { return l.memory.x.load(order) == wanted; });
    if (fenced) std::atomic_thread_fence(acquire);
    expect(l.memory.data == 42, "old data");
  };
}

void check(std::vector<steps> const& threads, std::size_t executions, std::size_t outcomes) {
  litmus l;
  result const r = l.run(threads);
  CHECK(r.violation == "");
  CHECK(r.complete == executions);
  CHECK(l.outcomes.size() == outcomes);
}

std::string violation(std::vector<steps> const& threads) { return litmus{}.run(threads).violation; }

}  // namespace

TEST_CASE("store buffering is allowed, except by a total order") {
  auto const both = [](std::memory_order store, std::memory_order load, bool fenced) {
    return std::vector{store_and_load(0, &words::x, &words::y, store, load, fenced),
                       store_and_load(1, &words::y, &words::x, store, load, fenced)};
  };
  check(both(relaxed, relaxed, false), 4, 4);
  check(both(release, acquire, false), 4, 4);
  check(both(seq_cst, seq_cst, false), 3, 3);
  check(both(relaxed, relaxed, true), 3, 3);
  check(both(seq_cst, acquire, false), 4, 4);  // one seq_cst access of two is not enough
}

TEST_CASE("load buffering is not explored") {
  auto const half = [](int t, auto load, auto store) {
    return [=](litmus& l) {
      l.seen[t][0] = (l.memory.*load).load(relaxed);
      (l.memory.*store).store(1, relaxed);
    };
  };
  check({half(0, &words::x, &words::y), half(1, &words::y, &words::x)}, 3, 3);
}

TEST_CASE("independent readers may disagree on the order of two stores, except of seq_cst ones") {
  for (auto const& [store, load, all] :
       {std::tuple{relaxed, relaxed, 16u}, std::tuple{release, acquire, 16u}, std::tuple{seq_cst, seq_cst, 15u}})
    check({[store](litmus& l) { l.memory.x.store(1, store); }, [store](litmus& l) { l.memory.y.store(1, store); },
           load_both(2, &words::x, &words::y, load), load_both(3, &words::y, &words::x, load)},
          all, all);
}

TEST_CASE("two threads may store to two words in different orders") {
  auto const half = [](auto first, auto second) {
    return [=](litmus& l) {
      (l.memory.*first).store(1, relaxed);
      (l.memory.*second).store(2, relaxed);
    };
  };
  check({half(&words::x, &words::y), half(&words::y, &words::x)}, 4, 1);
}

TEST_CASE("loads of one word never go back") {
  check({[](litmus& l) {
           l.memory.x.store(1, relaxed);
           l.memory.x.store(2, relaxed);
         },
         load_both(1, &words::x, &words::x, relaxed)},
        6, 6);
}

TEST_CASE("updates are atomic") {
  auto const add = [](int t) { return [=](litmus& l) { l.seen[t][0] = l.memory.x.fetch_add(1, relaxed); }; };
  check({add(0), add(1), add(2)}, 6, 6);
  check({add(0), add(1), add(2), add(3)}, 24, 24);
  auto const replace = [](int t) {
    return [=](litmus& l) {
      int expected = 0;
      l.seen[t][0] = l.memory.x.compare_exchange_strong(expected, t + 1, acq_rel);
    };
  };
  check({replace(0), replace(1), replace(2)}, 3, 3);
}

TEST_CASE("readers of one store see it or not") {
  auto const load = [](int t) { return [=](litmus& l) { l.seen[t][0] = l.memory.x.load(relaxed); }; };
  check({[](litmus& l) { l.memory.x.store(1, relaxed); }, load(1), load(2), load(3)}, 8, 8);
}

TEST_CASE("a message carries data only if one side releases and the other acquires") {
  auto const flag = [](std::memory_order order) {
    return write_data_and([=](litmus& l) { l.memory.x.store(1, order); });
  };
  steps const fenced_flag = write_data_and([](litmus& l) {
    std::atomic_thread_fence(release);
    l.memory.x.store(1, relaxed);
  });
  CHECK(violation({flag(release), read_data_after(1, acquire)}) == "");
  CHECK(violation({fenced_flag, read_data_after(1, relaxed, true)}) == "");
  CHECK(violation({flag(relaxed), read_data_after(1, acquire)}).starts_with("data race"));
  CHECK(violation({flag(release), read_data_after(1, relaxed)}).starts_with("data race"));
  CHECK(violation({fenced_flag, read_data_after(1, relaxed)}).starts_with("data race"));
}

TEST_CASE("all ways to write are seen") {
  using write = void (*)(int&, int const&);
  for (write const w : {write([](int& to, int const& from) { to = from; }),
                        write([](int& to, int const& from) { std::memcpy(&to, &from, sizeof to); }),
                        write([](int& to, int const& from) { std::copy_n(&from, 1, &to); }),
                        write([](int& to, int const& from) { std::fill_n(&to, 1, from); }),
                        write([](int& to, int const&) { std::memset(&to, 0, sizeof to); }),
                        write([](int& to, int const& from) { std::atomic_ref(to).store(from, relaxed); })}) {
    steps const writes = [=](litmus& l) { w(l.memory.data, 42); };
    CHECK(violation({writes, [](litmus& l) { l.seen[0][0] = l.memory.data; }}).starts_with("data race"));
  }
}

TEST_CASE("updates continue a release, other stores do not") {
  steps const flag = write_data_and([](litmus& l) { l.memory.x.store(1, release); });
  steps const add = [](litmus& l) {
    int one = 1;
    wait_for([&] { return one = 1, l.memory.x.compare_exchange_strong(one, 2, relaxed); });
  };
  steps const store = [](litmus& l) {
    wait_for([&] { return l.memory.x.load(relaxed) == 1; });
    l.memory.x.store(2, relaxed);
  };
  CHECK(violation({flag, add, read_data_after(2, acquire)}) == "");
  CHECK(violation({flag, store, read_data_after(2, acquire)}).starts_with("data race"));
}

TEST_CASE("a thread that waits for what never comes is a deadlock") {
  CHECK(violation({[](litmus& l) { l.memory.y.store(1, release); }, read_data_after(1, acquire)}) ==
        "deadlock: thread 1 would wait for ever");
}

TEST_CASE("a random execution is repeated by its seed") {
  litmus l;
  program const p =
      l.program_of({write_data_and([](litmus& m) { m.memory.x.store(1, relaxed); }), read_data_after(1, acquire)});
  result const first = at_random(p, 1, 1000);
  REQUIRE(first.violation.find("data race") == 0);
  std::uint64_t const seed = std::stoull(first.violation.substr(first.violation.find("seed ") + 5));
  result const again = at_random(p, seed, 1);
  CHECK(again.violation == first.violation);
  CHECK(again.trace == first.trace);
}
