// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Data-parallel training of a small network with two layers, which learns whether a point lies in a circle. Every rank draws its
// own samples. The gradient of the second layer is averaged over the ranks while that of the first is still being computed
// (docs/asynchrony.md). At the end, all ranks have the same weights, bit by bit.
// ranks: 4
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <random>
#include <stdexcept>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

constexpr std::size_t hidden = 16, samples = 64;
constexpr float rate = 0.5f;

struct point {
  float x, y, inside;  // 1 or 0
};

struct model {
  std::vector<float> first = std::vector<float>(3 * hidden);  // weights of x and y, and a bias, for each hidden unit
  std::vector<float> second = std::vector<float>(hidden + 1);
};

// Each rank has random numbers of its own, derived from a seed that all share.
std::vector<point> draw(std::mt19937& random) {
  std::uniform_real_distribution<float> coordinate(-1, 1);
  std::vector<point> out(samples);
  for (point& p : out) {
    p.x = coordinate(random), p.y = coordinate(random);
    p.inside = p.x * p.x + p.y * p.y < 0.5f ? 1.0f : 0.0f;
  }
  return out;
}

std::array<float, hidden> hidden_units(model const& m, point const& p) {
  std::array<float, hidden> out;
  for (std::size_t h = 0; h < hidden; ++h)
    out[h] = std::tanh(m.first[3 * h] * p.x + m.first[3 * h + 1] * p.y + m.first[3 * h + 2]);
  return out;
}

float probability(model const& m, std::array<float, hidden> const& units) {
  float sum = m.second[hidden];
  for (std::size_t h = 0; h < hidden; ++h) sum += m.second[h] * units[h];
  return 1 / (1 + std::exp(-sum));
}

void program(tutti::communicator<tutti::shm>& comm) {
  std::mt19937 random(static_cast<unsigned>(tutti::sync_random_seed(comm, 7)) + static_cast<unsigned>(comm.rank()));

  // Rank 0's weights are everybody's at the start.
  model weights, gradient;
  std::uniform_real_distribution<float> small(-1, 1);
  for (auto* layer : {&weights.first, &weights.second})
    for (float& w : *layer) w = small(random);
  tutti::broadcast(comm, weights.first);
  tutti::broadcast(comm, weights.second);

  // The same calls in every step, so they are prepared once.
  tutti::persistent second_mean = tutti::all_reduce(tutti::prepared(comm), gradient.second, tutti::mean{});
  tutti::persistent first_mean = tutti::all_reduce(tutti::prepared(comm), gradient.first, tutti::mean{});

  for (int step = 0; step < 1000; ++step) {
    std::vector<point> const batch = draw(random);
    std::vector<std::array<float, hidden>> units;
    std::vector<float> errors;
    std::ranges::fill(gradient.second, 0.0f);
    for (point const& p : batch) {
      units.push_back(hidden_units(weights, p));
      errors.push_back((probability(weights, units.back()) - p.inside) / samples);
      for (std::size_t h = 0; h < hidden; ++h) gradient.second[h] += errors.back() * units.back()[h];
      gradient.second[hidden] += errors.back();
    }
    second_mean.start();

    std::ranges::fill(gradient.first, 0.0f);
    for (std::size_t s = 0; s < batch.size(); ++s)
      for (std::size_t h = 0; h < hidden; ++h) {
        float const slope = errors[s] * weights.second[h] * (1 - units[s][h] * units[s][h]);
        gradient.first[3 * h] += slope * batch[s].x;
        gradient.first[3 * h + 1] += slope * batch[s].y;
        gradient.first[3 * h + 2] += slope;
      }
    first_mean.start();

    second_mean.wait();
    first_mean.wait();
    for (std::size_t i = 0; i < weights.second.size(); ++i) weights.second[i] -= rate * gradient.second[i];
    for (std::size_t i = 0; i < weights.first.size(); ++i) weights.first[i] -= rate * gradient.first[i];
  }

  std::array right{0.0};
  for (int i = 0; i < 10; ++i)
    for (point const& p : draw(random))
      right[0] += (probability(weights, hidden_units(weights, p)) > 0.5f) == (p.inside > 0.5f) ? 1 : 0;
  right[0] /= 10 * samples;
  tutti::all_reduce(comm, right, tutti::mean{});

  std::vector<float> least = weights.first, greatest = weights.first;
  tutti::all_reduce(comm, least, tutti::min{});
  tutti::all_reduce(comm, greatest, tutti::max{});
  comm.main_only([&] { std::printf("%d ranks: %.1f %% of new points are told right\n", comm.size(), 100 * right[0]); });
  if (least != greatest) throw std::runtime_error("ranks have different weights");
  if (right[0] < 0.9) throw std::runtime_error("the model has not learnt");
}

}  // namespace

int main() try { tutti::run(4, program); } catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
