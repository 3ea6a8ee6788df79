// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gradients in buckets, over loopback.
// labels: threads twin
// timeout: 200
#include "support/sanitized.hpp"
#include "training/data_parallel.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <stdexcept>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("gradients in buckets are averaged over loopback") {
  for (int const ranks : ranks_to_test({1, 2, 3, 4, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_all_steps(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_same_bits(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_hooks(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_adaptive_buckets(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_bits_of_adaptive_buckets(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_gradient_norm(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_broadcast(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_misuse(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_stale_gradients(comm); }));
    for (bool const find_unused : {false, true})
      CHECK_NOTHROW(run_threads(ranks, [&](auto& comm) { check_stale_gradients_later(comm, find_unused); }));
  }
}

TEST_CASE("several buckets are in flight at once over loopback") {
  for (int const ranks : ranks_to_test({2, 3, 4, 8})) {
    CAPTURE(ranks);
    shared_count begun, ended;
    CHECK_NOTHROW(run_threads(ranks, [&](auto& comm) { check_buckets_together(comm, begun, ended); }));
  }
}

TEST_CASE("ranks that train different models are told so over loopback") {
  for (int const ranks : ranks_to_test({2, 3, 4})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_mismatch(comm); }));
  }
}

TEST_CASE("a step that fails on one rank ends on all over loopback") {
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    for (bool const later : {false, true})
      for (int const concurrent : {1, 2})
        for (bool const by_priority : {false, true})
          CHECK_NOTHROW(
              run_threads(ranks, [&](auto& comm) { check_throwing_hook(comm, later, concurrent, by_priority); }));
    for (bool const by_priority : {false, true})
      CHECK_NOTHROW(run_threads(ranks, [&](auto& comm) { check_exception_in_step(comm, by_priority); }));
    using namespace tutti::training;
    auto const check_with = [&](auto const& hook) {
      CHECK_NOTHROW(run_threads(ranks, [&](auto& comm) { check_exception_in_step(comm, false, hook); }));
    };
    check_with(cast_to<bfloat16>{});
    check_with(error_feedback(one_bit_signs{}));
    check_with(power_sgd());
  }
}

TEST_CASE("an exception between two buckets ends the step on all") {
  auto const thrown = errors_of(3, [](auto& comm) {
    std::vector<std::vector<float>> parameters(3, std::vector<float>(100));
    work first;
    auto const hook = [&](training::bucket<float> const& some, auto& on) {
      work const reduced = training::average{}(some, on);
      if (some.index == 0) first = reduced;
      return reduced;
    };
    try {
      training::data_parallel model(comm, parameters, {.buckets = {.bytes = 1, .first_bytes = 1}}, hook);
      model.ready(2);
      first.wait();
      if (comm.rank() == 0) throw std::logic_error("the program has failed");
      model.ready(1);
      model.ready(0);
      model.finish();
    } catch (std::logic_error const&) {
      expect(comm.rank() == 0, "an exception on another rank");
    }
  });
  for (std::size_t const rank : {1u, 2u})
    CHECK_NOTHROW(expect_error(thrown[rank], error_code::revoked, "is destroyed in a step"));
}

TEST_CASE("a rank that leaves during the backward pass is named over loopback") {
  for (int const ranks : ranks_to_test({2, 4}))
    for (int const concurrent : {1, 3})
      CHECK_NOTHROW(run_threads(
          ranks, [&](auto& comm) { check_loss(comm, error_code::rank_left, [] {}, {.concurrent = concurrent}); }));
}
