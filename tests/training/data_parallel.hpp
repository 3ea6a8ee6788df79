// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gradients are averaged in buckets as one call for each would, whatever the order in which they become ready. Each function
// is what a rank does.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "support/expect.hpp"
#include "training/shared_count.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// A model whose gradients are functions of rank, step and pass, which every rank can compute for all others. They are small
// integers, so sums are exact in any order, and their mean is rounded once.
struct made_up_model {
  std::vector<std::vector<float>> parameters;
  int ranks;
  std::uint32_t seed;

  // Sizes below, at and above those of buckets of 1 KiB, and none at all.
  made_up_model(int p, std::uint32_t some_seed) : ranks(p), seed(some_seed) {
    for (std::size_t const n : {7u, 0u, 64u, 256u, 257u, 1u, 1300u, 0u, 0u, 20u, 30u, 225u}) parameters.emplace_back(n);
  }

  static std::uint32_t scrambled(std::uint32_t x) {
    x = (x ^ (x >> 16)) * 0x45d9f3bu;
    return x ^ (x >> 13);
  }
  float gradient(int rank, int step, int pass, std::size_t parameter, std::size_t k) const {
    std::uint32_t const where =
        static_cast<std::uint32_t>(((rank * 64 + step) * 8 + pass) * 16) + static_cast<std::uint32_t>(parameter);
    return static_cast<float>(scrambled(where * 8191 + static_cast<std::uint32_t>(k) + seed) % 64) - 20;
  }
  int passes(int step) const { return 1 + static_cast<int>(scrambled(seed + static_cast<std::uint32_t>(step)) % 3); }
  // Some parameters are unused on some ranks, and one in four in a whole step.
  bool uses(int rank, int step, int pass, std::size_t parameter) const {
    auto const one = static_cast<std::uint32_t>(parameter) * 31 + seed, when = static_cast<std::uint32_t>(step) * 977;
    auto const who = static_cast<std::uint32_t>(rank * 8 + pass) * 7919;
    return scrambled(one + when) % 4 != 0 && scrambled(one + when + who) % 3 != 0;
  }

  float mean(int step, std::size_t parameter, std::size_t k, bool with_unused) const {
    float sum = 0;
    for (int r = 0; r < ranks; ++r)
      for (int pass = 0; pass < passes(step); ++pass)
        if (!with_unused || uses(r, step, pass, parameter)) sum += gradient(r, step, pass, parameter, k);
    return sum / static_cast<float>(ranks);
  }
  bool used_anywhere(int step, std::size_t parameter) const {
    for (int r = 0; r < ranks; ++r)
      for (int pass = 0; pass < passes(step); ++pass)
        if (uses(r, step, pass, parameter)) return true;
    return false;
  }
};

// A backward pass that writes gradients, or adds to them, in an order of this rank's own.
template <class Model>
void backward_of(made_up_model const& of, Model& model, int rank, int step, int pass, bool with_unused,
                 std::mt19937& order) {
  bool const adds = of.passes(step) > 1;
  std::vector<std::size_t> all(model.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::ranges::shuffle(all, order);
  for (std::size_t const i : all) {
    if (with_unused && !of.uses(rank, step, pass, i)) continue;
    auto const gradient = model.gradient(i);
    for (std::size_t k = 0; k < gradient.size(); ++k)
      gradient[k] = (adds ? gradient[k] : 0) + of.gradient(rank, step, pass, i, k);
    model.ready(i);
  }
}

template <class Model>
void expect_mean(made_up_model const& of, Model& model, int step, bool with_unused, std::size_t i) {
  expect(!with_unused || model.used(i) == of.used_anywhere(step, i), "used() is wrong");
  for (std::size_t k = 0; k < model.gradient(i).size(); ++k)
    if (model.gradient(i)[k] != of.mean(step, i, k, with_unused))
      throw std::runtime_error("element " + std::to_string(k) + " of gradient " + std::to_string(i) +
                               " is wrong in step " + std::to_string(step));
}
template <class Model>
void expect_means(made_up_model const& of, Model& model, int step, bool with_unused) {
  for (std::size_t i = 0; i < model.size(); ++i) expect_mean(of, model, step, with_unused, i);
}

// Waits for some parameters, which differ from rank to rank: for all in the order of the list, for some in any order, or for
// none.
template <class Model>
void wait_for_some(made_up_model const& of, Model& model, int step, bool with_unused, std::mt19937& random) {
  std::vector<std::size_t> some(model.size());
  std::iota(some.begin(), some.end(), std::size_t{0});
  if (auto const kind = random() % 3; kind > 0) {
    std::ranges::shuffle(some, random);
    some.resize(kind == 1 ? 0 : random() % some.size());
  }
  for (std::size_t const i : some) {
    model.wait(i);
    expect_mean(of, model, step, with_unused, i);
    if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// Several steps of one, two or three passes each.
template <class Comm>
void check_steps(Comm& comm, training::data_parallel_options options, std::uint32_t seed, bool waits = false) {
  made_up_model some(comm.size(), seed);
  training::data_parallel model(comm, some.parameters, options);
  expect(model.size() == some.parameters.size(), "the number of parameters");
  std::mt19937 order(seed + static_cast<std::uint32_t>(comm.rank()));
  for (int step = 0; step < 4; ++step) {
    int const last = some.passes(step) - 1;
    if (last > 0) model.zero();
    {
      auto const local = model.accumulate();
      for (int pass = 0; pass < last; ++pass)
        backward_of(some, model, comm.rank(), step, pass, options.find_unused, order);
    }
    backward_of(some, model, comm.rank(), step, last, options.find_unused, order);
    if (waits) wait_for_some(some, model, step, options.find_unused, order);
    model.finish();
    expect_means(some, model, step, options.find_unused);
  }
  std::size_t const bytes = std::accumulate(some.parameters.begin(), some.parameters.end(), std::size_t{0},
                                            [](std::size_t n, auto const& one) { return n + 4 * one.size(); });
  training::training_statistics const& seen = model.statistics();
  expect(seen.steps == 4 && seen.bytes == 4 * bytes, "the statistics are wrong");
  expect(seen.busy <= seen.in_flight, "the times are wrong");
  expect(comm.size() == 1 || (seen.busy.count() > 0 && seen.bandwidth() > 0), "nothing was in flight");
}

template <class Comm>
void check_all_steps(Comm& comm, bool by_priority = false) {
  std::uint32_t seed = by_priority ? 100 : 0;
  auto const check = [&](training::data_parallel_options options) {
    options.by_priority = by_priority;
    check_steps(comm, options, ++seed, by_priority);
  };
  for (bool const find_unused : {false, true})
    for (bool const rebuild : {false, true})
      for (std::size_t const bytes : {std::size_t{1}, std::size_t{1024}, std::size_t{25} << 20})
        check({.buckets = {.bytes = bytes, .first_bytes = 256}, .find_unused = find_unused, .rebuild = rebuild});
  check({.buckets = {.bytes = 100, .first_bytes = 100}, .concurrent = 3});
  check({.buckets = {.bytes = 100, .first_bytes = 100}, .find_unused = true, .progress_thread = true});
  if (by_priority) return;
  for (bool const find_unused : {false, true})
    check_steps(comm, {.buckets = {.bytes = 1024, .first_bytes = 256}, .find_unused = find_unused}, ++seed, true);
}

// The bits are those of one started all_reduce for each bucket, also where sums are rounded.
template <class Comm>
void check_same_bits(Comm& comm, bool by_priority = false, int concurrent = 1) {
  std::mt19937 random(static_cast<unsigned>(comm.rank()));
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> parameters{std::vector<float>(3000), std::vector<float>(40000),
                                             std::vector<float>(11)};
  training::data_parallel model(
      comm, parameters,
      {.buckets = {.bytes = 1 << 16, .first_bytes = 1 << 10}, .concurrent = concurrent, .by_priority = by_priority});
  for (int step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < 3; ++i)
      for (float& x : model.gradient(i)) x = normal(random);
    std::vector<std::vector<float>> sums;
    for (auto const& bucket : model.plan().buckets)
      for (std::size_t const i : bucket.parameters) {
        if (i == bucket.parameters.front()) sums.emplace_back();
        sums.back().insert(sums.back().end(), model.gradient(i).begin(), model.gradient(i).end());
      }
    for (auto& s : sums) all_reduce(async(comm), s, mean{}).wait();
    std::vector<float const*> at;
    for (auto const& s : sums) at.push_back(s.data());
    auto const plan = model.plan();
    for (std::size_t const i : {1u, 0u, 2u}) model.ready(i);
    model.finish();
    for (auto const& bucket : plan.buckets)
      for (std::size_t const i : bucket.parameters) {
        float const* const reference = at[plan.places[i].bucket] + (plan.places[i].begin - bucket.begin);
        expect(std::equal(model.gradient(i).begin(), model.gradient(i).end(), reference), "other bits");
      }
  }
}

// A hook that is a lambda, and adds the gradients.
template <class Comm>
void check_own_hook(Comm& comm) {
  std::vector<std::vector<float>> parameters(6, std::vector<float>(50));
  std::vector<std::size_t> buckets;
  training::data_parallel model(comm, parameters, {.buckets = {.bytes = 400, .first_bytes = 400}},
                                [&](training::bucket<float> const& some, Comm& on) {
                                  buckets.push_back(some.index);
                                  return all_reduce(async(on), some.gradients, sum{});
                                });
  for (std::size_t i = 0; i < 6; ++i) {
    std::ranges::fill(model.gradient(i), static_cast<float>(comm.rank()));
    model.ready(i);
  }
  model.finish();
  expect(buckets == std::vector<std::size_t>{0, 1, 2}, "the hook was called for other buckets");
  expect(model.gradient(3)[49] == static_cast<float>(comm.size() * (comm.size() - 1) / 2), "the hook's sum is wrong");
}

// Gradients travel as bfloat16, half or float8: each contribution is rounded once, and so is the mean.
template <class Narrow, class Comm>
void check_cast(Comm& comm) {
  std::vector<std::vector<float>> parameters{std::vector<float>(100), std::vector<float>(1000), std::vector<float>(3)};
  training::data_parallel model(comm, parameters, {}, training::cast_to<Narrow>{});
  auto const value = [](int rank, std::size_t i, std::size_t k) {
    return 1 + static_cast<float>(made_up_model::scrambled(static_cast<std::uint32_t>(rank) * 100003 +
                                                           static_cast<std::uint32_t>(i * 1001 + k)) %
                                  65536) /
                   65536;
  };
  for (int step = 0; step < 2; ++step) {
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t k = 0; k < model.gradient(i).size(); ++k) model.gradient(i)[k] = value(comm.rank(), i, k);
      model.ready(i);
    }
    model.finish();
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t k = 0; k < model.gradient(i).size(); ++k) {
        float sum_of_all = 0;  // exact: all contributions are multiples of the last bit of one
        for (int r = 0; r < comm.size(); ++r) sum_of_all += static_cast<float>(Narrow(value(r, i, k)));
        float const expected = comm.size() == 1
                                   ? value(0, i, k)
                                   : static_cast<float>(Narrow(sum_of_all / static_cast<float>(comm.size())));
        if (model.gradient(i)[k] != expected) throw std::runtime_error("a gradient was rounded in another way");
      }
  }
}
// The last rank's gradient is more than the type can hold, which the norm of the means must show.
template <class Narrow, class Comm>
void check_cast_overflow(Comm& comm) {
  for (float const huge : {std::numeric_limits<float>::infinity(), -1e6f, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<std::vector<float>> parameters{std::vector<float>(40)};
    training::data_parallel model(comm, parameters, {}, training::cast_to<Narrow>{});
    std::ranges::fill(model.gradient(0), 1.0f);
    if (comm.rank() == comm.size() - 1) model.gradient(0)[7] = huge;
    model.ready(0);
    model.finish();
    float const mean = model.gradient(0)[7];
    expect(std::isfinite(mean) == (comm.size() == 1 && std::isfinite(huge)), "an overflow is hidden");
    expect(model.gradient(0)[8] == 1, "an overflow spreads");
  }
}
template <class Comm>
void check_hooks(Comm& comm) {
  check_own_hook(comm);
  check_cast<bfloat16>(comm);
  check_cast<half>(comm);
  check_cast<float8_e5m2>(comm);
  check_cast_overflow<half>(comm);
  check_cast_overflow<float8_e5m2>(comm);
  check_cast_overflow<float8_e4m3>(comm);
}

// All ranks start with the parameters of rank 0, which a list of other state can do too.
template <class Comm>
void check_broadcast(Comm& comm) {
  std::vector<double> first(5, comm.rank()), second(70000, comm.rank() + 1);
  std::vector<std::span<double>> const both{first, second};
  training::data_parallel const model(comm, both);
  expect(std::ranges::count(first, 0.0) == 5 && std::ranges::count(second, 1.0) == 70000, "not the values of rank 0");
  std::vector<training::parameter<int>> const counters{};
  training::broadcast_parameters(comm, counters);
  first.assign(5, comm.rank());
  training::broadcast_parameters(comm, both, comm.size() - 1);
  expect(first[4] == comm.size() - 1, "not the values of the last rank");
}

// Buckets whose size is searched for: all ranks have the same, the means are right whatever it is, and no gradient moves.
template <class Comm>
void check_adaptive_buckets(Comm& comm, bool by_priority = false) {
  made_up_model some(comm.size(), 3);
  training::data_parallel model(comm, some.parameters,
                                {.buckets = {.bytes = 1024, .first_bytes = 256},
                                 .adapt = training::adaptive_buckets{.least_bytes = 64, .most_bytes = 4096, .steps = 1},
                                 .by_priority = by_priority});
  std::mt19937 order(static_cast<unsigned>(comm.rank()));
  std::set<std::size_t> seen;
  float const* first = nullptr;
  for (int step = 0; step < 40; ++step) {
    if (step == 1) first = model.gradient(0).data();  // the first step has rebuilt the buckets
    expect(step == 0 || model.gradient(0).data() == first, "a gradient has moved");
    if (some.passes(step) > 1) model.zero();
    {
      auto const local = model.accumulate();
      for (int pass = 0; pass < some.passes(step) - 1; ++pass)
        backward_of(some, model, comm.rank(), step, pass, false, order);
    }
    backward_of(some, model, comm.rank(), step, some.passes(step) - 1, false, order);
    if (by_priority) wait_for_some(some, model, step, false, order);
    model.finish();
    expect_means(some, model, step, false);
    std::vector<std::size_t> const buckets = all_gather(comm, model.plan().buckets.size());
    expect(std::ranges::count(buckets, buckets[0]) == comm.size(), "ranks have different buckets");
    seen.insert(buckets[0]);
  }
  expect(seen.size() > 1, "no other size was tried");
}

// A hook that adds in rank order has the same bits in buckets of any size, so those of a search do not change the result.
template <class Comm>
void check_bits_of_adaptive_buckets(Comm& comm) {
  std::vector<std::vector<float>> parameters;
  for (std::size_t const n : {100u, 300u, 50u, 700u}) parameters.emplace_back(n);
  auto const trained = [&](training::data_parallel_options const& options) {
    training::data_parallel model(comm, parameters, options, training::average{{.algorithm = algorithm_id::two_shot}});
    std::mt19937 random(static_cast<unsigned>(comm.rank()));
    std::normal_distribution<float> normal;
    std::vector<float> out;
    std::set<std::size_t> buckets;
    for (int step = 0; step < 12; ++step) {
      for (std::size_t i = parameters.size(); i-- > 0;) {
        for (float& g : model.gradient(i)) g = normal(random);
        model.ready(i);
      }
      buckets.insert(model.plan().buckets.size());
      model.finish();
      for (std::size_t i = 0; i < parameters.size(); ++i) std::ranges::copy(model.gradient(i), std::back_inserter(out));
    }
    expect(options.adapt.has_value() == (buckets.size() > 1), "the search tried no other buckets");
    return out;
  };
  expect(trained({.buckets = {.bytes = 1024, .first_bytes = 256, .last_bytes = 256},
                  .adapt = training::adaptive_buckets{.least_bytes = 64, .most_bytes = 4096}}) == trained({}),
         "other buckets have other bits");
}

// Ranks that hold parts of one model: parameter 0 as a whole, their parts of parameter 1.
template <class Comm>
void check_gradient_norm(Comm& comm) {
  auto own = comm.split(comm.rank()).value();
  std::vector<std::vector<double>> parameters{std::vector<double>(3), std::vector<double>(5)};
  training::data_parallel model(own, parameters);
  std::ranges::fill(model.gradient(0), 2.0);
  std::ranges::fill(model.gradient(1), comm.rank() + 1.0);
  training::optimizer descent(parameters, training::sgd{});
  auto const refused = [&](auto&& f, std::string const& words) {
    expect_error(error_of([&] { return f(), 0; }), error_code::bad_argument, words);
  };
  auto const refused_before_finish = [&] {
    refused([&] { return training::gradient_norm(model); }, "gradient_norm() was called before finish(), so some");
    refused([&] { descent.step(model); }, "step() was called before finish(), so some gradients may not be means yet");
  };
  for (std::size_t const i : {1u, 0u}) {
    model.ready(i);
    refused_before_finish();
  }
  model.wait(1);  // ends the pass, but other gradients may still be on their way
  refused_before_finish();
  model.finish();
  auto const squares = [](int rank) { return 5.0 * (rank + 1) * (rank + 1); };
  double all = 3 * 4;
  for (int r = 0; r < comm.size(); ++r) all += squares(r);
  expect(std::abs(training::gradient_norm(model) - std::sqrt(12 + squares(comm.rank()))) < 1e-12, "the norm is wrong");
  double const norm = training::gradient_norm(model, comm, [&](std::size_t i) { return i == 1 || comm.rank() == 0; });
  expect(std::abs(norm - std::sqrt(all)) < 1e-12 * norm, "the norm of divided gradients is wrong");
}

template <class Comm>
void check_misuse(Comm& comm) {
  std::vector<float> a(10), b(20), c(30);
  std::vector<training::parameter<float>> const parameters{{a, "a", {2, 5}}, {b, ""}, {c, "c"}};
  training::data_parallel model(comm, parameters);
  auto const refused = [&](auto&& f, std::string const& words) {
    expect_error(error_of([&] { return f(), 0; }), error_code::bad_argument, words);
  };
  model.ready(0);
  refused([&] { model.ready(0); }, "the gradient of parameter 0 (a) was reported ready twice");
  refused([&] { model.ready(3); }, "there is no parameter 3, only 3 parameters");
  refused([&] { std::ignore = model.gradient(3); }, "there is no parameter 3");
  refused([&] { std::ignore = model.used(3); }, "there is no parameter 3");
  refused([&] { model.zero(); }, "zero() was called when gradients had already been");
  refused([&] { training::data_parallel const none(comm, parameters, {.concurrent = 0}); },
          "concurrent is less than 1");
  using training::adaptive_buckets;
  refused([&] { training::data_parallel const none(comm, parameters, {.adapt = adaptive_buckets{.least_bytes = 0}}); },
          "adaptive_buckets has the range of 0 to 104857600 bytes");
  refused([&] { training::data_parallel const none(comm, parameters, {.adapt = adaptive_buckets{.most_bytes = 9}}); },
          "adaptive_buckets has the range of 1048576 to 9 bytes");
  refused([&] { training::data_parallel const none(comm, parameters, {.adapt = adaptive_buckets{.steps = 0}}); },
          "adaptive_buckets::steps is less than 1");
  refused([&] { model.finish(); }, "no gradient was reported ready of parameter 1, parameter 2 (c) [");
  refused([&] { auto const late = model.accumulate(); },
          "accumulate() was called when the gradient of parameter 0 (a)");
  model.ready(1);
  model.ready(2);
  model.finish();
  {
    auto const local = model.accumulate();
    refused([&] { model.finish(); }, "finish() was called while gradients are accumulated");
    refused([&] { model.wait(0); }, "wait() was called while gradients are accumulated");
  }
  refused([&] { model.wait(3); }, "there is no parameter 3");
  model.ready(2);
  refused([&] { model.wait(2); },
          "wait() was called, but no gradient was reported ready of parameter 0 (a), parameter 1 [");
  model.ready(0);
  model.ready(1);
  model.wait(0);
  refused([&] { model.ready(0); }, "the gradient of parameter 0 (a) was reported ready after wait() had ended the");
  refused([&] { model.zero(); }, "zero() was called when");
  refused([&] { auto const late = model.accumulate(); }, "accumulate() was called when the gradient");
  model.wait(0);
  model.finish();
  refused([&] { training::data_parallel const tied(comm, std::vector<std::span<float>>{a, b, std::span(a).last(1)}); },
          "parameter 0 and parameter 2 share memory [");
  std::vector<training::parameter<float>> const wrong{{a, "a", {3, 5}}};
  refused([&] { training::data_parallel const other(comm, wrong); },
          "parameter 0 (a) has the shape 3 x 5, but an array of 10 values");
}

// A gradient written to where it was before the buckets were rebuilt would be lost.
template <class Comm>
void check_stale_gradients(Comm& comm) {
  std::vector<std::vector<float>> parameters(3, std::vector<float>(100));
  training::data_parallel model(comm, parameters);
  auto const before = model.gradient(1);
  for (std::size_t i = 0; i < 3; ++i) model.ready(i);
  model.finish();
  expect(model.gradient(1).data() != before.data(), "the buckets were not rebuilt");
  expect(std::ranges::equal(model.gradient(1), before), "a mean cannot be read where it was");
  model.ready(0);
  before[99] = 1;
  expect_error(error_of([&] { return model.ready(1), 0; }), error_code::bad_argument,
               "the gradient of parameter 1 was written to where it was in the first step, but it has moved");
}

// The same if it is written with the values that it had there, after zero(), and if the parameter was not used in the step between.
template <class Comm>
void check_stale_gradients_later(Comm& comm, bool find_unused) {
  std::vector<std::vector<float>> parameters(2, std::vector<float>(100));
  training::data_parallel model(comm, parameters, {.find_unused = find_unused});
  auto const before = model.gradient(1);
  for (std::size_t i = 0; i < 2; ++i) {
    std::ranges::fill(model.gradient(i), 3.0f);
    model.ready(i);
  }
  model.finish();
  for (int step = 1; find_unused && step < 3; ++step) {
    model.zero();
    model.ready(0);
    model.finish();
  }
  model.zero();
  std::ranges::fill(before, 3.0f);
  model.ready(0);
  expect_error(error_of([&] { return model.ready(1), 0; }), error_code::bad_argument,
               "the gradient of parameter 1 was written to where it was in the first step, but it has moved");
}

// A hook that throws on one rank, or whose continuation does, ends the step on all.
template <class Comm>
void check_throwing_hook(Comm& comm, bool later, int concurrent, bool by_priority = false) {
  std::vector<std::vector<float>> parameters(3, std::vector<float>(100));
  int const odd = comm.size() - 1;
  auto another = comm.split(0).value();
  auto const hook = [odd, later](training::bucket<float> const& some, auto& on) {
    auto const fail = [] { throw std::runtime_error("no more memory"); };
    bool const fails = some.index == 1 && on.rank() == odd;
    if (fails && !later) fail();
    work const sum_of_all = all_reduce(async(on), some.gradients, sum{});
    return fails ? sum_of_all.then(fail) : sum_of_all;
  };
  training::data_parallel model(
      comm, parameters,
      {.buckets = {.bytes = 1, .first_bytes = 1}, .concurrent = concurrent, .by_priority = by_priority}, hook);
  barrier(another);  // no rank fails while others still make the model
  for (std::size_t i = 0; i < 3; ++i) model.ready(i);
  if (comm.rank() == odd) {
    bool thrown = false;
    try {
      model.finish();
    } catch (std::runtime_error const& e) {
      thrown = std::string(e.what()).find("no more memory") != std::string::npos;
    }
    expect(thrown, "the exception of the hook is lost");
  } else {
    // A rank that had all that it needs to finish the step is told in its next call.
    auto const step_and_next_call = [&] {
      model.finish();
      barrier(comm);
      return 0;
    };
    expect_error(error_of(step_and_next_call), error_code::revoked,
                 "a step of training has failed there: no more memory");
  }
}

// The program throws on one rank while gradients are being reduced, and others wait for it. Their errors name the lines of the
// program, not those of the library.
template <class Comm, class Hook = training::average>
void check_exception_in_step(Comm& comm, bool by_priority = false, Hook const& hook = {}) {
  std::vector<std::vector<float>> parameters(3, std::vector<float>(100));
  auto another = comm.split(0).value();
  auto const pass = [&] {
    training::data_parallel model(comm, parameters,
                                  {.buckets = {.bytes = 1, .first_bytes = 1}, .by_priority = by_priority}, hook);
    barrier(another);  // no rank fails while others still make the model
    if (comm.rank() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    model.ready(2);
    if (comm.rank() == 0) throw std::runtime_error("the program has failed");
    model.ready(1);
    model.ready(0);
    model.finish();
  };
  try {
    pass();
    expect(false, "nothing was thrown");
  } catch (error const& e) {
    // If the others were late enough, rank 0 waited for them.
    expect(comm.rank() != 0 && (e.code() == error_code::revoked || e.code() == error_code::rank_left), "another error");
    expect(contains(e, "data_parallel.hpp:") && !contains(e, "tutti/training/"), e.what());
  } catch (std::runtime_error const&) {
    expect(comm.rank() == 0, "an exception on another rank");
  }
}

// Every rank throws the same sentence if one of them has another model.
template <class Comm>
void check_mismatch(Comm& comm) {
  int const odd = comm.size() - 1;
  bool const differs = comm.rank() == odd;
  auto const made = [&](std::vector<training::parameter<float>> const& all, training::data_parallel_options o = {}) {
    return error_of([&] { return training::data_parallel(comm, all, o).size(); });
  };
  std::vector<float> a(12), b(12);
  std::string const rank = "rank " + std::to_string(odd);
  expect_error(made({{a, "a"}, {b, "b", differs ? std::vector<std::size_t>{3, 4} : std::vector<std::size_t>{4, 3}}}),
               error_code::mismatch,
               rank + " has parameter 1 (b) of shape 3 x 4, but rank 0 has parameter 1 (b) of shape 4 x 3");
  std::vector<training::parameter<float>> const one{{a}}, two{{a}, {b}};
  expect_error(made(differs ? one : two), error_code::mismatch,
               rank + " lacks parameter 1 of shape 12, which rank 0 has");
  expect_error(made(differs ? two : one), error_code::mismatch,
               rank + " has parameter 1 of shape 12, which rank 0 lacks");
  expect_error(made(two, {.find_unused = differs}), error_code::mismatch, "find_unused = 1");
  expect_error(made(two, {.find_unused = differs}), error_code::mismatch, "pass the same options on every rank");
  expect_error(made({{a, "two\nlines"}, {b, differs ? "b" : "c"}}), error_code::mismatch,
               rank + " has parameter 1 (b) of shape 12, but rank 0 has parameter 1 (c) of shape 12");
  check_broadcast(comm);  // the communicator works as before
}

// A rank is gone while the others compute gradients: their errors name it.
template <class Comm, class Leave>
void check_loss(Comm& comm, error_code expected, Leave const& leave, training::data_parallel_options options = {}) {
  options.buckets = {.bytes = 1, .first_bytes = 1};
  // The others may still be in the constructor when rank 1 leaves.
  error const thrown = error_of([&] {
    std::vector<std::vector<float>> parameters(4, std::vector<float>(5000));
    training::data_parallel model(comm, parameters, options);
    for (std::size_t i = 4; i-- > 0;) {
      if (i == 1 && comm.rank() == 1) return leave(), 0;
      model.ready(i);
    }
    return model.finish(), 0;
  });
  if (comm.rank() == 1) return;
  expect_error(thrown, expected, "rank 1");
  expect(thrown.peer() == 1, "the error has another peer");
}

// Rank 1 is gone before it has begun the second bucket, whose communicator is not that of the program. Rank 0 learns of it there,
// and rank 2 in a call on the communicator of the program: its error names rank 1, too, not rank 0, which has left the step.
template <class Comm, class Leave>
void check_loss_beside(Comm& comm, Leave const& leave, shared_count& reduced, shared_count& found) {
  std::vector<std::vector<float>> parameters(2, std::vector<float>(100));
  work first;
  auto const hook = [&](training::bucket<float> const& some, Comm& on) {
    work const reduction = training::average{}(some, on);
    if (some.index == 0) first = reduction;
    return reduction;
  };
  training::data_parallel model(comm, parameters,
                                {.buckets = {.bytes = 1, .first_bytes = 1}, .concurrent = 2, .rebuild = false}, hook);
  model.ready(1);
  first.wait();
  reduced.add();
  reduced.await(3, "the others have not reduced the first bucket");
  if (comm.rank() == 1) return leave();
  if (comm.rank() == 0) {
    model.ready(0);
    error const thrown = error_of([&] { return model.finish(), 0; });
    found.add();
    expect_error(thrown, error_code::rank_lost, "rank 1");
  } else {
    found.await(1, "rank 0 does not find the loss");
    error const thrown = error_of([&] { return barrier(comm), 0; });
    expect_error(thrown, error_code::rank_lost, "rank 1");
    expect(thrown.peer() == 1, "the error has another peer");
  }
}

// Three buckets are in flight at once, on ranks that report their gradients in different orders. The last rank begins none before the
// others have all three in flight; and of one bucket it holds back what it contributes, until the two others have ended on all ranks.
template <class Comm>
void check_buckets_together(Comm& comm, shared_count& begun, shared_count& ended) {
  constexpr std::size_t buckets = 3, number = 3 * buckets, count = 50;
  bool const is_last = comm.rank() == comm.size() - 1;
  std::size_t held = 0;
  std::vector<work> works(buckets);
  Comm* held_on = nullptr;
  std::span<float> held_gradients;
  auto const hook = [&](training::bucket<float> const& some, Comm& on) {
    if (is_last && some.index == held) {
      held_on = &on;
      held_gradients = some.gradients;
      return work();
    }
    return works[some.index] = training::average{}(some, on);
  };
  std::vector<std::vector<float>> parameters(number, std::vector<float>(count));
  std::size_t const bytes = number / buckets * count * sizeof(float);
  training::data_parallel model(
      comm, parameters,
      {.buckets = {.bytes = bytes, .first_bytes = bytes}, .concurrent = static_cast<int>(buckets), .rebuild = false},
      hook);
  expect(model.plan().buckets.size() == buckets, "the test has another number of buckets");
  std::mt19937 random(static_cast<unsigned>(comm.rank()) + 5);
  std::vector<std::size_t> order(number);
  std::iota(order.begin(), order.end(), std::size_t{0});
  int rounds = 0;
  for (int repeat = 0; repeat < 4; ++repeat)
    for (held = 0; held < buckets; ++held) {
      int const others = ++rounds * (comm.size() - 1);
      if (is_last) begun.await(others, "the others have not begun three buckets");
      std::ranges::shuffle(order, random);
      for (std::size_t const i : order) {
        std::ranges::fill(model.gradient(i), static_cast<float>(comm.rank() + static_cast<int>(i) * rounds));
        model.ready(i);
      }
      if (!is_last) {
        for (work const& one : works) expect(!one.done(), "a bucket is not in flight");
        begun.add();
      }
      for (std::size_t b = 0; b < buckets; ++b)
        if (b != held) works[b].wait();
      if (is_last) {
        ended.await(others, "the others have not ended two of three buckets");
        all_reduce(async(*held_on), held_gradients, mean{}).wait();
      } else {
        expect(!works[held].done(), "a bucket has ended to which a rank has not contributed");
        ended.add();
      }
      model.finish();
      for (std::size_t i = 0; i < number; ++i)
        for (float const x : model.gradient(i))
          expect(x == static_cast<float>(comm.size() - 1) / 2 + static_cast<float>(static_cast<int>(i) * rounds),
                 "a mean is wrong");
    }
}

}  // namespace tutti::testing
