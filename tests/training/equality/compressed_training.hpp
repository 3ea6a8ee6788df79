// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Training with gradients that are sent in fewer bytes, beside one process that computes what all ranks send. Each function is what a
// rank does.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// Two matrices, each in a bucket of its own, that approach those of each rank.
struct compressed_course {
  static constexpr std::size_t rows = 6, columns = 10, elements = rows * columns;
  static constexpr int steps = 4;
  static constexpr float rate = 0.25f;
  using matrices = std::vector<std::vector<float>>;

  static matrices zeros() { return matrices(2, std::vector<float>(elements)); }
  // Matrices of rank 2.
  static float target(int rank, std::size_t i, std::size_t k) {
    float const row = static_cast<float>(k / columns), column = static_cast<float>(k % columns);
    return (row - 2) * std::cos(column) +
           static_cast<float>(i + 1) * (3 - row) * std::sin(column + static_cast<float>(rank));
  }
  static float gradient(matrices const& x, int rank, std::size_t i, std::size_t k) {
    return x[i][k] - target(rank, i, k);
  }
};

template <class Comm, class Hook>
compressed_course::matrices trained_compressed(Comm& comm, Hook hook) {
  using course = compressed_course;
  auto x = course::zeros();
  std::vector<training::parameter<float>> parameters;
  for (auto& one : x) parameters.push_back({one, "", {course::rows, course::columns}});
  training::data_parallel model(comm, parameters, {.buckets = {.bytes = 1, .first_bytes = 1}, .rebuild = false},
                                std::move(hook));
  for (int step = 0; step < course::steps; ++step) {
    for (std::size_t i = 2; i-- > 0;) {
      for (std::size_t k = 0; k < course::elements; ++k) model.gradient(i)[k] = course::gradient(x, comm.rank(), i, k);
      model.ready(i);
    }
    model.finish();
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t k = 0; k < course::elements; ++k) x[i][k] -= course::rate * model.gradient(i)[k];
  }
  auto const& seen = model.statistics();
  expect(comm.size() == 1 || seen.message_bytes < seen.bytes, "nothing was compressed");
  return x;
}

// By one process: send(rank, i, gradient) turns the gradient of matrix i into what the rank sends, which is added up in rank order;
// `round` rounds the mean.
template <class Send, class Round = std::identity>
compressed_course::matrices compressed_by_one_process(int ranks, Send&& send, Round round = {}) {
  using course = compressed_course;
  auto x = course::zeros();
  for (int step = 0; step < course::steps; ++step) {
    auto const before = x;
    for (std::size_t i = 0; i < 2; ++i) {
      std::vector<float> sums(course::elements);
      for (int rank = 0; rank < ranks; ++rank) {
        std::vector<float> gradient(course::elements);
        for (std::size_t k = 0; k < course::elements; ++k) gradient[k] = course::gradient(before, rank, i, k);
        if (ranks > 1) send(rank, i, gradient);
        for (std::size_t k = 0; k < course::elements; ++k) sums[k] = rank == 0 ? gradient[k] : sums[k] + gradient[k];
      }
      for (std::size_t k = 0; k < course::elements; ++k) {
        float const mean = sums[k] / static_cast<float>(ranks);
        x[i][k] -= course::rate * (ranks > 1 ? round(mean) : mean);
      }
    }
  }
  return x;
}

inline void expect_matrices(compressed_course::matrices const& a, compressed_course::matrices const& b, float tolerance,
                            std::string const& what) {
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t k = 0; k < compressed_course::elements; ++k)
      if (!(std::abs(a[i][k] - b[i][k]) <= tolerance))
        throw std::runtime_error("another value than that of one process: " + what);
}

// The same bits, because messages are added up in rank order.
template <class Codec, class Comm>
void check_codec(Comm& comm, Codec const& codec, std::string const& name) {
  std::vector residuals(static_cast<std::size_t>(comm.size()), compressed_course::zeros());
  auto const send = [&](int rank, std::size_t i, std::vector<float>& gradient) {
    auto& residual = residuals[static_cast<std::size_t>(rank)][i];
    std::vector<std::byte> message(codec.message_bytes(gradient.size()));
    for (std::size_t k = 0; k < gradient.size(); ++k) residual[k] += gradient[k];
    codec.encode(residual, message.data());
    codec.decode(message.data(), gradient);
    for (std::size_t k = 0; k < gradient.size(); ++k) residual[k] -= gradient[k];
  };
  expect_matrices(trained_compressed(comm, training::error_feedback(codec)),
                  compressed_by_one_process(comm.size(), send), 0, name);
}

template <class Comm>
void check_compressed_training(Comm& comm) {
  check_codec(comm, training::top_k{.share = 0.2}, "top_k");
  check_codec(comm, training::eight_bit_blocks{}, "eight_bit_blocks");
  check_codec(comm, training::one_bit_signs{}, "one_bit_signs");
  auto const narrow = [](float x) { return static_cast<float>(bfloat16(x)); };
  expect_matrices(
      trained_compressed(comm, training::cast_to<bfloat16>{}),
      compressed_by_one_process(
          comm.size(),
          [&](int, std::size_t, auto& gradient) { std::ranges::transform(gradient, gradient.begin(), narrow); },
          narrow),
      0, "cast_to<bfloat16>");
  // Gradients have rank 2, so products of rank 2 lose nothing but bits.
  expect_matrices(trained_compressed(comm, training::power_sgd({.rank = 2})),
                  compressed_by_one_process(comm.size(), [](int, std::size_t, auto&) {}), 1e-3f, "power_sgd");
}

}  // namespace tutti::testing
