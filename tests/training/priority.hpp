// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Buckets that the next forward pass needs first are reduced first, in the same order on all ranks, and a program can use their
// means while others are still on their way.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "support/expect.hpp"
#include "training/data_parallel.hpp"
#include "training/shared_count.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// Eight layers, each with a bucket of its own: bucket 0 is that of the last layer. Rank 0 reports all its gradients before the
// others report any, and is not in a call while they do. So it has voted on the first turn when one bucket was full, and on the
// second when all were; the others may have voted on the second before all their buckets were full. From the third turn on, all
// buckets are full on all ranks when they vote. The last rank begins no reduction after the first few until rank 0 has used the
// mean of the first layer: rank 0 thus has it before others can be complete.
template <class Comm>
void check_priority(Comm& comm, int concurrent, shared_count& begun, shared_count& reported, shared_count& used) {
  constexpr std::size_t layers = 8;
  std::size_t const held = static_cast<std::size_t>(concurrent) + 3;
  std::vector<std::vector<float>> parameters(layers, std::vector<float>(5000));
  std::vector<std::size_t> order;
  std::vector<work> works;
  bool const slow = comm.rank() == comm.size() - 1;
  auto const hook = [&](training::bucket<float> const& some, Comm& on) {
    if (slow && order.size() == held) used.await(1, "wait() for the first layer waits for other buckets, too");
    order.push_back(some.index);
    works.push_back(training::average{}(some, on));
    return works.back();
  };
  training::data_parallel model(
      comm, parameters,
      {.buckets = {.bytes = 1, .first_bytes = 1}, .concurrent = concurrent, .by_priority = true, .rebuild = false},
      hook);
  if (comm.rank() != 0) begun.await(1, "rank 0 cannot report its gradients");
  for (std::size_t layer = layers; layer-- > 0;) {
    std::ranges::fill(model.gradient(layer), static_cast<float>(comm.rank() + 2 * static_cast<int>(layer)));
    model.ready(layer);
  }
  if (comm.rank() == 0) {
    begun.add();
    reported.await(comm.size() - 1, "the others cannot report their gradients");
  } else {
    reported.add();
  }
  auto const expect_mean = [&](std::size_t layer) {
    float const expected = static_cast<float>(comm.size() - 1) / 2 + 2 * static_cast<float>(layer);
    expect(std::ranges::count(model.gradient(layer), expected) == 5000, "a mean is wrong");
  };
  model.wait(0);
  expect_mean(0);
  if (comm.rank() == 0) {
    auto const ended = std::ranges::count_if(works, [](work const& w) { return w.done(); });
    expect(ended < static_cast<std::ptrdiff_t>(layers), "all buckets have ended although a rank has not begun them");
    used.add();
  }
  for (std::size_t layer = 1; layer < layers; ++layer) {
    model.wait(layer);
    expect_mean(layer);
  }
  model.finish();

  auto of_rank_0 = order;
  broadcast(comm, of_rank_0, 0);
  expect(order == of_rank_0, "ranks have begun reductions in different orders");
  expect(order.size() == layers && order[0] == 0, "the first turn is that of the only full bucket");
  expect(order[1] == layers - 1 || order[2] == layers - 1, "the first layer had to wait");
  expect(std::ranges::is_sorted(std::span(order).subspan(2), std::greater{}),
         "buckets were not reduced in the order of need");
}

// Steps in all ways, with random orders and delays on each rank.
template <class Comm>
void check_steps_by_priority(Comm& comm) {
  check_all_steps(comm, true);
  for (int const concurrent : {1, 2}) check_same_bits(comm, true, concurrent);
  check_adaptive_buckets(comm, true);
}

// Hooks keep what they need for each bucket, in whatever order they are called for these.
template <class Comm>
void check_hooks_by_priority(Comm& comm) {
  std::vector<std::vector<float>> parameters(6, std::vector<float>(64));
  auto const train = [&](auto hook, bool by_priority) {
    training::data_parallel model(
        comm, parameters, {.buckets = {.bytes = 256, .first_bytes = 256}, .by_priority = by_priority, .rebuild = false},
        hook);
    std::vector<float> means;
    for (int step = 0; step < 3; ++step) {
      for (std::size_t i = 6; i-- > 0;) {
        for (std::size_t k = 0; k < 64; ++k)
          model.gradient(i)[k] =
              1 / static_cast<float>(
                      3 + comm.rank() + step +
                      static_cast<int>(made_up_model::scrambled(static_cast<std::uint32_t>(i * 64 + k)) % 99));
        model.ready(i);
      }
      for (std::size_t i = 0; i < 6; ++i) {
        model.wait(i);
        means.insert(means.end(), model.gradient(i).begin(), model.gradient(i).end());
      }
      model.finish();
    }
    return means;
  };
  auto const check = [&](auto hook) {
    expect(train(hook, false) == train(hook, true), "a hook has other bits by priority");
  };
  check(training::cast_to<bfloat16>{});
  check(training::error_feedback(training::top_k{.share = 0.1}));
  check(training::error_feedback(training::eight_bit_blocks{}));
}

// A hook of two rounds: the second begins by priority, too.
template <class Comm>
void check_two_rounds_by_priority(Comm& comm) {
  std::vector<float> a(600), b(50), c(600);
  std::vector<training::parameter<float>> const parameters{{a, "", {20, 30}}, {b, ""}, {c, "", {30, 20}}};
  auto const train = [&](bool by_priority, int concurrent) {
    training::data_parallel model(comm, parameters,
                                  {.buckets = {.bytes = 1, .first_bytes = 1},
                                   .concurrent = concurrent,
                                   .by_priority = by_priority,
                                   .rebuild = false},
                                  training::power_sgd({.rank = 2}));
    std::vector<float> means;
    for (int step = 0; step < 3; ++step) {
      for (std::size_t i = 3; i-- > 0;) {
        for (std::size_t k = 0; k < model.gradient(i).size(); ++k)
          model.gradient(i)[k] = static_cast<float>((k * 7 + i + static_cast<std::size_t>(comm.rank() + step)) % 13);
        model.ready(i);
      }
      for (std::size_t i = 0; i < 3; ++i) {
        if (comm.rank() % 2 == 0) model.wait(i);
        if (comm.rank() % 2 == 0) means.insert(means.end(), model.gradient(i).begin(), model.gradient(i).end());
      }
      model.finish();
      if (comm.rank() % 2 != 0)
        for (std::size_t i = 0; i < 3; ++i)
          means.insert(means.end(), model.gradient(i).begin(), model.gradient(i).end());
    }
    return means;
  };
  auto const reference = train(false, 1);
  for (int const concurrent : {1, 2})
    expect(train(true, concurrent) == reference, "two rounds have other bits by priority");
}

}  // namespace tutti::testing
