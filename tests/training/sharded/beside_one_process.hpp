// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sharded training beside one process that computes what all ranks contribute: with parameters that take no part in some steps, and
// with parameters of low precision. Each function is what a rank does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "training/sharded/sharded.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// Parameter 4 takes no part in step 1, and parameter 5 in none; of the others, each rank uses two thirds.
inline bool takes_part_sometimes(int rank, int step, int pass, std::size_t parameter) {
  int const i = static_cast<int>(parameter);
  return i != 5 && (i != 4 || step != 1) && (rank + step + pass + i) % 3 != 0;
}

// The parameters after a course, without communication. Several passes that are reduced exclude local ones.
template <class T, class Rule>
std::vector<std::vector<T>> trained_by_one_process(int ranks, Rule const& rule, training_course const& course) {
  using number = training::master_of<T>;
  layered_model<T> model;
  std::vector<std::vector<number>> masters;
  for (auto const& p : model.parameters) masters.emplace_back(p.begin(), p.end());
  training::optimizer descent(masters, rule);
  bool used = false;
  // What a rank contributes to a mean.
  auto const gradient = [&](int rank, int step, int first, int last, std::size_t i, std::size_t k) {
    T out{};
    for (int pass = first; pass <= last; ++pass) {
      if (!course.takes_part(rank, step, pass, i)) continue;
      used = true;
      out = model.next(last > first, out, model.gradient(rank, step, pass, i, k, model.parameters[i][k]));
    }
    return number(out);
  };
  for (int step = 0; step < course.steps; ++step) {
    descent.begin_step();
    for (std::size_t i = 0; i < masters.size(); ++i) {
      std::vector<number> means(masters[i].size());
      used = false;
      for (std::size_t k = 0; k < means.size(); ++k)
        for (int pass = 0; pass < course.reduced_passes; ++pass) {
          int const last = course.local_passes + pass, first = last - course.local_passes;
          number sum_of_all = gradient(0, step, first, last, i, k);
          for (int rank = 1; rank < ranks; ++rank) sum_of_all += gradient(rank, step, first, last, i, k);
          number const one = number(T(sum_of_all / static_cast<number>(ranks)));
          means[k] = pass == 0 ? one : means[k] + one;
        }
      if (used) descent.update(i, means, static_cast<number>(course.scale));
    }
    for (std::size_t i = 0; i < masters.size(); ++i)
      std::ranges::transform(masters[i], model.parameters[i].begin(), [](number x) { return T(x); });
  }
  return model.parameters;
}

// The same bits, whatever the stage, the buckets and the prefetch.
template <class T, class Comm, class Rule>
void check_beside_one_process(Comm& comm, Rule const& rule, training_course const& course) {
  auto const expected = trained_by_one_process<T>(comm.size(), rule, course);
  for (int const stage : {1, 2, 3}) {
    if (stage == 1 && course.reduced_passes > 1) continue;  // which need stage 2
    for (std::size_t const n : {0u, 2u}) {
      training::sharding_options const options{.stage = stage,
                                               .buckets = {.bytes = 500 * (n + 1), .first_bytes = 100},
                                               .buffers = n + 1,
                                               .prefetch = n,
                                               .find_unused = course.takes_part == takes_part_sometimes};
      expect(sharded<T>(comm, rule, options, course) == expected,
             "other bits than one process in stage " + std::to_string(stage) + " with " + std::to_string(n));
    }
  }
}

// A rule that changes parameters and state also where gradients are zero.
inline constexpr training::momentum decaying{.rate = 0.1, .weight_decay = 0.3};

template <class Comm>
void check_unused_shards(Comm& comm) {
  for (int const reduced : {1, 2})
    check_beside_one_process<float>(comm, decaying, {.reduced_passes = reduced, .takes_part = takes_part_sometimes});
  check_beside_one_process<float>(comm, decaying, {.local_passes = 1, .takes_part = takes_part_sometimes});
}

// One parameter is used by no rank, one by the last, one by all; and then none by any.
template <class Comm>
void check_used_shards(Comm& comm) {
  std::vector<std::vector<float>> parameters(3, std::vector<float>(50, 1.0f));
  for (int const stage : {1, 2, 3}) {
    training::sharded_data_parallel model(
        comm, parameters, decaying, {.stage = stage, .buckets = {.bytes = 1, .first_bytes = 1}, .find_unused = true});
    for (std::size_t i = 2; i > 0; --i) {
      if (i == 1 && comm.rank() + 1 < comm.size()) continue;
      std::ranges::fill(model.gradient(i), 1.0f);
      model.ready(i);
    }
    model.finish();
    for (std::size_t i = 0; i < 3; ++i) expect(model.used(i) == (i > 0), "a parameter is used, or is not");
    if (stage == 1)
      expect_error(error_of([&] { return model.finish(), 0; }), error_code::bad_argument,
                   "a second backward pass was begun before the step");
    model.step();
    model.step();
    expect(!model.used(2), "a parameter is used in a step without any");
    for (std::size_t i = 0; i < 3; ++i) {
      auto const here = model.gather(i);
      expect((model.parameter(i)[49] == 1.0f) == (i == 0), "a parameter was changed, or was not");
    }
  }
}

// Parameters and gradients of low precision, masters and the optimiser's state in float.
template <class T, class Comm>
void check_low_precision(Comm& comm) {
  check_beside_one_process<T>(comm, training::adam{.rate = 0.001, .weight_decay = 0.1}, {.local_passes = 1});
  check_beside_one_process<T>(comm, training::momentum{.rate = 1e-5},
                              {.reduced_passes = 2, .scale = 0.5, .takes_part = takes_part_sometimes});
  check_checkpoint<T>(comm);
}

// Steps that are too small to change a bfloat16 add up in its master.
template <class Comm>
void check_small_steps(Comm& comm) {
  std::vector<std::vector<bfloat16>> parameters(1, std::vector<bfloat16>(100, bfloat16(1.0f)));
  training::sharded_data_parallel model(comm, parameters, training::sgd{.rate = 0.001}, {});
  for (int step = 0; step < 100; ++step) {
    std::ranges::fill(model.gradient(0), bfloat16(1.0f));
    model.ready(0);
    model.step();
  }
  expect(std::ranges::count(model.parameter(0), bfloat16(0.9f)) == 100, "small steps are lost");
  auto const [now, peak] = model.memory();
  std::size_t const mine = shard_of(100, comm.size(), comm.rank()).count;
  expect(now.parameters == 200 && now.masters == 4 * mine && now.gradients == 4 * mine && now.state == 0,
         "other memory is in use");
}

}  // namespace tutti::testing
