// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gradients in buckets, over shm.
// labels: processes
// timeout: 200
#include "support/sanitized.hpp"
#include "training/data_parallel.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <thread>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

// On rank 0, only finish() can end the second round of the last bucket, which rank 1 joins last. A continuation then sleeps for longer than
// finish() has taken until then. Ranks must be processes: threads drive each other's calls.
struct late_in_last_bucket {
  shared_count& begun;
  std::chrono::steady_clock::time_point& finishing;
  std::chrono::nanoseconds& delay;

  work operator()(training::bucket<float> const& some, communicator<shm>& comm) const {
    return training::average{}(some, comm);
  }
  work second_round(training::bucket<float> const& some, communicator<shm>& comm) const {
    if (some.index != 2) return {};
    if (comm.rank() == 1) begun.await(1, "rank 0 has not begun the second round");
    work const all = all_reduce(async(comm), some.gradients, max{});
    if (comm.rank() == 1) return all;
    work const late = all.then([this] {
      delay = std::chrono::steady_clock::now() - finishing + std::chrono::milliseconds(1);
      std::this_thread::sleep_for(delay);
    });
    begun.add();
    return late;
  }
};

void check_statistics(communicator<shm>& comm, shared_count& begun) {
  std::chrono::steady_clock::time_point finishing;
  std::chrono::nanoseconds delay{};
  std::vector<std::vector<float>> parameters(3, std::vector<float>(100));
  training::data_parallel model(comm, parameters, {.buckets = {.bytes = 1, .first_bytes = 1}, .rebuild = false},
                                late_in_last_bucket{begun, finishing, delay});
  for (std::size_t i = 3; i-- > 0;) model.ready(i);
  finishing = std::chrono::steady_clock::now();
  model.finish();
  if (comm.rank() != 0) return;
  training::training_statistics const& seen = model.statistics();
  expect(seen.buckets.size() == 3 && seen.longest_awaited() == 2, "another bucket was awaited longest");
  expect(seen.buckets[2].awaited >= delay && seen.buckets[2].in_flight >= delay, "the delay is not counted");
  expect(seen.buckets[0].awaited + seen.buckets[1].awaited < delay, "the delay is counted for another bucket");
  expect(seen.waited >= delay && seen.in_flight >= delay, "the delay of a bucket is not one of the step");
  expect(seen.overlap() < 1, "a delay was hidden by nothing");
}

}  // namespace

TEST_CASE("gradients in buckets are averaged over shm") {
  for (int const ranks : ranks_to_test({1, 2, 3, 4, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_all_steps(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_same_bits(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_hooks(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_adaptive_buckets(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_bits_of_adaptive_buckets(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_gradient_norm(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_broadcast(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_misuse(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_stale_gradients(comm); }));
    for (bool const find_unused : {false, true})
      CHECK_NOTHROW(run_local(ranks, [&](auto& comm) { check_stale_gradients_later(comm, find_unused); }));
  }
}

TEST_CASE("statistics name the bucket that was awaited longest") {
  shared_count begun;
  CHECK_NOTHROW(run_local(2, [&](auto& comm) { check_statistics(comm, begun); }));
  using namespace std::chrono_literals;
  training::training_statistics seen;
  CHECK(seen.longest_awaited() == 0);
  CHECK(seen.overlap() == 0);
  seen.in_flight = 8s;
  seen.waited = seen.driven = 1s;
  CHECK(seen.overlap() == 0.75);
  seen.waited = 9s;
  CHECK(seen.overlap() == 0);
}

TEST_CASE("several buckets are in flight at once over shm") {
  for (int const ranks : ranks_to_test({2, 3, 4, 8})) {
    CAPTURE(ranks);
    shared_count begun, ended;
    CHECK_NOTHROW(run_local(ranks, [&](auto& comm) { check_buckets_together(comm, begun, ended); }));
  }
}

TEST_CASE("ranks that train different models are told so over shm") {
  for (int const ranks : ranks_to_test({2, 3, 4})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_mismatch(comm); }));
  }
}

TEST_CASE("a rank that dies during the backward pass is named over shm") {
  for (int const ranks : ranks_to_test({2, 4})) {
    auto const die = [] { ::raise(SIGKILL); };
    for (int const concurrent : {1, 3})
      for (bool const by_priority : {false, true}) {
        CAPTURE(concurrent);
        CAPTURE(by_priority);
        error const e = error_of([&] {
          run_local(ranks, [&](auto& comm) {
            check_loss(comm, error_code::rank_lost, die, {.concurrent = concurrent, .by_priority = by_priority});
          });
          return 0;
        });
        CHECK(e.peer() == 1);
        CHECK_MESSAGE(!contains(e, "expected"), e.what());
      }
  }
}

TEST_CASE("a rank that dies is named in calls beside the buckets, too") {
  shared_count reduced, found;
  error const e = error_of([&] {
    run_local(3, [&](auto& comm) { check_loss_beside(comm, [] { ::raise(SIGKILL); }, reduced, found); });
    return 0;
  });
  CHECK(e.peer() == 1);
  CHECK_MESSAGE(!contains(e, "expected"), e.what());
}
