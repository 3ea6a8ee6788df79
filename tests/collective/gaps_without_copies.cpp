// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls on arrays with gaps allocate no memory of the size of a message. All name the protocol, because the tuning table may choose pull,
// whose windows are larger than this test's messages.
// labels: alone
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "support/replaced_new.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {
std::atomic<std::size_t> largest_allocation = 0;
}  // namespace

void tutti::testing::note_allocation(std::size_t bytes) {
  for (std::size_t seen = largest_allocation; bytes > seen && !largest_allocation.compare_exchange_weak(seen, bytes);) {
  }
}

namespace {

constexpr std::size_t count = 300'000, stride = 3;

// The largest allocation of any rank while all call f().
template <class Comm, class F>
std::size_t largest_in(Comm& comm, F&& f) {
  barrier(comm);
  largest_allocation = 0;
  barrier(comm);
  f();
  barrier(comm);
  std::size_t const out = largest_allocation;
  barrier(comm);
  return out;
}

template <class Comm>
void check_allocations(Comm& comm) {
  std::size_t const blocks = static_cast<std::size_t>(comm.size());
  std::vector<float> one(count * stride, 1.0f), other(one), many(count * stride * blocks), others(many);
  auto in = strided(one.data(), count, stride), out = strided(other.data(), count, stride),
       all = strided(many.data(), count * blocks, stride), all_out = strided(others.data(), count * blocks, stride);
  auto const check = [&](char const* what, auto&& f) {
    std::size_t const most = largest_in(comm, f);
    expect(most <= 256 * 1024, std::string(what) + " allocates " + std::to_string(most) + " bytes at once");
  };
  auto const staged = [](algorithm_id id) { return options{.algorithm = id, .protocol = protocol::staged}; };
  options const any = staged(algorithm_id::automatic);
  check("all_reduce", [&] { all_reduce(comm, in, out, sum{}, any); });
  check("all_reduce in place", [&] { all_reduce(comm, in, max{}, staged(algorithm_id::two_shot)); });
  check("an all_reduce that is started", [&] { all_reduce(async(comm), in, out, sum{}, any).wait(); });
  check("a prepared all_reduce", [&] {
    persistent call = all_reduce(prepared(comm), in, out, sum{}, any);
    call.start();
    call.wait();
  });
  check("reduce", [&] { reduce(comm, in, out, sum{}, 0, staged(algorithm_id::one_shot)); });
  check("broadcast", [&] { broadcast(comm, out, 0, any); });
  check("reduce_scatter", [&] { reduce_scatter(comm, all, out, sum{}, staged(algorithm_id::one_shot)); });
  check("all_gather", [&] { all_gather(comm, in, all, any); });
  check("gather", [&] { gather(comm, in, all, 0, staged(algorithm_id::one_shot)); });
  check("scatter", [&] { scatter(comm, all, out, 0, staged(algorithm_id::one_shot)); });
  check("all_to_all", [&] { all_to_all(comm, all, all_out, staged(algorithm_id::pairwise)); });
  check("scan", [&] { scan(comm, in, out, sum{}, staged(algorithm_id::one_shot)); });
  options const pull{.algorithm = algorithm_id::one_shot, .protocol = protocol::pull};
  std::size_t const windows = largest_in(comm, [&] { broadcast(comm, out, 0, pull); });
  expect(windows <= 5 << 20, "pull allocates " + std::to_string(windows) + " bytes at once");
  check("pull of a longer array", [&] { broadcast(comm, all_out, 0, pull); });
  expect(largest_in(comm, [] { std::vector<char> const control(count); }) == count, "an allocation was not noticed");
}

}  // namespace

TEST_CASE("no call on arrays with gaps allocates memory of the size of a message") {
  for (int const ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_allocations(comm); }));
  }
}

TEST_CASE("a call of one rank that would replace an array with gaps by itself does nothing") {
  CHECK_NOTHROW(run_threads(1, [](auto& comm) {
    std::vector<float> one(count * stride, 1.0f);
    auto const array = strided(one.data(), count, stride);
    expect(largest_in(comm, [&] { broadcast(comm, array, 0); }) == 0, "broadcast");
    expect(largest_in(comm, [&] { all_reduce(comm, array); }) == 0, "all_reduce in place");
    premultiplied_sum const halved{0.5f};
    all_reduce(comm, array, halved);
    expect(one[stride] == 0.5f, "all_reduce in place by an operation that changes the sum");
  }));
}
