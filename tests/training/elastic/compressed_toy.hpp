// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small training whose gradients are compressed, with residuals of each shard of the data.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "training/elastic/toy.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// Two matrices and an array, which each shard pulls somewhere else.
struct compressed_task {
  static constexpr std::size_t rows = 6, columns = 10, size = 2 * rows * columns + 7, shards = 6;
  static constexpr float rate = 0.1f;

  static std::vector<std::vector<std::size_t>> shapes() { return {{rows, columns}, {columns, rows}, {7}}; }
  static float gradient(std::span<float const> weights, std::size_t shard, std::size_t i, std::uint64_t number) {
    return weights[i] - std::sin(static_cast<float>(shard * size + i * i + number));
  }
};

// Means: elastic_feedback or elastic_power_sgd.
template <class Means>
class compressed_toy {
 public:
  using place = toy_training::place;
  using task = compressed_task;

  explicit compressed_toy(Means means) : means_(std::move(means)) {}

  template <class Comm>
  std::vector<training::saved_array> arrays(Comm& comm) {
    std::vector out{training::replicated("weights", weights_), means_.residuals(comm)};
    if constexpr (requires { means_.factors(); }) out.push_back(means_.factors());
    return out;
  }

  // Calls at(place), also after the gradients of some shards have been compressed.
  template <class Comm, class At>
  void step(Comm& comm, std::uint64_t number, At const& at) {
    at(place::begin);
    std::vector<float> mean(task::size);
    std::size_t seen = 0;
    means_.mean(comm, mean, [&](std::size_t shard, std::span<float> gradient) {
      if (++seen == 2) at(place::computed);
      for (std::size_t i = 0; i < task::size; ++i) gradient[i] += task::gradient(weights_, shard, i, number);
    });
    at(place::summed);
    for (std::size_t i = 0; i < task::size; ++i) weights_[i] -= task::rate * mean[i];
    at(place::end);
  }
  template <class Comm>
  void step(Comm& comm, std::uint64_t number) {
    step(comm, number, [](place) {});
  }
  std::vector<float> const& weights() const { return weights_; }

 private:
  Means means_;
  std::vector<float> weights_ = std::vector<float>(task::size, 0.5f);
};

template <class Codec>
training::elastic_feedback<Codec> feedback_of(Codec codec) {
  return {compressed_task::shards, compressed_task::size, codec};
}
inline training::elastic_power_sgd power_sgd_of_shards() {
  return {compressed_task::shards, compressed_task::shapes(), {.rank = 2}};
}

// The weights of one process that keeps the residuals of all shards itself.
template <class Codec>
std::vector<float> weights_by_hand(Codec const& codec, std::uint64_t steps) {
  using task = compressed_task;
  std::vector<float> weights(task::size, 0.5f);
  std::vector residuals(task::shards, std::vector<float>(task::size));
  std::vector<std::byte> message(codec.message_bytes(task::size));
  for (std::uint64_t number = 1; number <= steps; ++number) {
    std::vector<float> sums(task::size), sent(task::size);
    for (std::size_t shard = 0; shard < task::shards; ++shard) {
      auto& residual = residuals[shard];
      for (std::size_t i = 0; i < task::size; ++i) residual[i] += task::gradient(weights, shard, i, number);
      codec.encode(residual, message.data());
      codec.decode(message.data(), sent);
      for (std::size_t i = 0; i < task::size; ++i) residual[i] -= sent[i], sums[i] += sent[i];
    }
    for (std::size_t i = 0; i < task::size; ++i)
      weights[i] -= task::rate * (sums[i] / static_cast<float>(task::shards));
  }
  return weights;
}
// Those of a single rank.
template <class Means>
std::vector<float> weights_of_one_rank(Means means, std::uint64_t steps) {
  compressed_toy alone(std::move(means));
  communicator<shm> comm(std::make_unique<shm>());
  alone.arrays(comm);
  for (std::uint64_t number = 1; number <= steps; ++number) alone.step(comm, number);
  return alone.weights();
}

template <class Means, class Comm>
std::vector<float> weights_of_loop(Means means, Comm comm, std::uint64_t steps,
                                   training::elastic_options const& options = {}) {
  compressed_toy toy(std::move(means));
  training::elastic_loop loop(std::move(comm), options);
  loop.run(
      steps, [&](auto& its) { return toy.arrays(its); },
      [&](auto& its, std::uint64_t number) { toy.step(its, number); });
  return toy.weights();
}

// Calls f(means, weights after so many steps, name) for each way to compress.
template <class F>
void for_each_compression(std::uint64_t steps, F const& f) {
  auto const with_codec = [&](auto codec, char const* name) {
    f(feedback_of(codec), weights_by_hand(codec, steps), name);
  };
  with_codec(training::top_k{.share = 0.1}, "top_k");
  with_codec(training::eight_bit_blocks{}, "eight_bit_blocks");
  with_codec(training::one_bit_signs{}, "one_bit_signs");
  f(power_sgd_of_shards(), weights_of_one_rank(power_sgd_of_shards(), steps), "power_sgd");
}

// Any number of ranks has the bits of one process.
template <class Comm>
void check_compressed_elastic_training(Comm& comm) {
  constexpr std::uint64_t steps = 6;
  for_each_compression(steps, [&](auto const& means, std::vector<float> const& right, char const* name) {
    expect(weights_of_loop(means, comm.split(0).value(), steps) == right,
           std::string("elastic training with ") + name + " has other bits than one process");
  });
}

}  // namespace tutti::testing
