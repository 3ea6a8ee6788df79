// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small training whose every step depends on all of its state: weights, a random engine, the position in the data, momentum
// divided by elements, and residuals of rounded gradients divided by shards of the data.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tutti/training/elastic/elastic_loop.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

class toy_training {
 public:
  static constexpr std::size_t size = 37, shards = 12;

  enum class place { begin, computed, summed, end };

  template <class Comm>
  std::vector<training::saved_array> arrays(Comm& comm) {
    elements_ = part(size, comm.size(), comm.rank());
    shards_ = part(shards, comm.size(), comm.rank());
    momentum_.resize(elements_.count);
    residuals_.resize(shards_.count * size);
    return {training::replicated("weights", weights_), training::replicated("random", random_),
            training::replicated("position", position_), training::divided("momentum", momentum_),
            training::divided("residuals", residuals_)};
  }

  // Calls at(place) in the middle of the step, too.
  template <class Comm, class At>
  void step(Comm& comm, std::uint64_t number, At const& at) {
    at(place::begin);
    double const noise = static_cast<double>(random_()) * 1e-10;
    position_ += shards;
    std::vector<binned<double>> sums(size);
    for (std::size_t s = 0; s < shards_.count; ++s)
      for (std::size_t i = 0; i < size; ++i) {
        double& residual = residuals_[s * size + i];
        double const shard = static_cast<double>(shards_.begin + s + 1);
        double const exact =
            std::sin(weights_[i] * shard + static_cast<double>(i + number + position_)) + noise + residual;
        float const sent = std::round(static_cast<float>(exact) * 64) / 64;
        residual = exact - static_cast<double>(sent);
        sums[i] += static_cast<double>(sent);
      }
    at(place::computed);
    all_reduce(comm, sums);
    at(place::summed);
    std::vector<double> mine(elements_.count);
    std::vector<std::size_t> counts;
    for (int r = 0; r < comm.size(); ++r) counts.push_back(part(size, comm.size(), r).count);
    for (std::size_t i = 0; i < elements_.count; ++i) {
      momentum_[i] = 0.9 * momentum_[i] + sums[elements_.begin + i].value();
      mine[i] = weights_[elements_.begin + i] - 0.01 * momentum_[i];
    }
    all_gather_v(comm, mine, weights_, counts);
    at(place::end);
  }
  template <class Comm>
  void step(Comm& comm, std::uint64_t number) {
    step(comm, number, [](place) {});
  }

  // A number that depends on all bits of the weights (FNV-1a).
  std::uint64_t hash() const {
    std::uint64_t out = 14695981039346656037u;
    for (std::byte const b : std::as_bytes(std::span(weights_)))
      out = (out ^ static_cast<std::uint64_t>(b)) * 1099511628211u;
    return out;
  }

  // What a single rank gets in so many steps, without a loop around them.
  static std::uint64_t hash_after(std::uint64_t steps) {
    toy_training alone;
    communicator<shm> comm(std::make_unique<shm>());
    alone.arrays(comm);
    for (std::uint64_t number = 1; number <= steps; ++number) alone.step(comm, number);
    return alone.hash();
  }

 private:
  extent elements_{}, shards_{};  // those of this rank
  std::vector<double> weights_ = std::vector<double>(size, 0.5), momentum_, residuals_;
  std::mt19937 random_{7};
  std::uint64_t position_ = 0;
};

}  // namespace tutti::testing
