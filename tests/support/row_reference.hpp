// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Epilogues on rows as a user writes them, and what an all_reduce with one of them gives, computed in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "tutti/reduce/rows.hpp"

namespace tutti::testing {

// Ba, Kiros and Hinton 2016. The mean and the squared deviations of parts of a row are combined as by Chan, Golub and LeVeque.
struct layer_norm {
  float epsilon;

  struct total {
    float count = 0, mean = 0, deviations = 0;
  };
  struct statistics {
    float mean, factor;
  };
  TUTTI_HOST_DEVICE total of(float x) const { return {1, x, 0}; }
  TUTTI_HOST_DEVICE total combine(total const& a, total const& b) const {
    float const count = a.count + b.count;
    if (count == 0) return a;
    float const apart = b.mean - a.mean, share = b.count / count;
    return {count, a.mean + apart * share, a.deviations + b.deviations + apart * apart * a.count * share};
  }
  TUTTI_HOST_DEVICE statistics row(total const& all, std::size_t) const {
    return {all.mean, 1 / std::sqrt(all.deviations / all.count + epsilon)};
  }
  TUTTI_HOST_DEVICE float finish(float x, statistics const& row, float weight, float bias) const {
    return (x - row.mean) * row.factor * weight + bias;
  }
};

// In one pass over the row (Milakov and Gimelshein 2018).
struct softmax {
  struct total {
    float largest = -std::numeric_limits<float>::max(), sum = 0;  // of exp(x - largest)
  };
  TUTTI_HOST_DEVICE total of(float x) const { return {x, 1}; }
  TUTTI_HOST_DEVICE total combine(total const& a, total const& b) const {
    float const largest = a.largest < b.largest ? b.largest : a.largest;
    return {largest, a.sum * std::exp(a.largest - largest) + b.sum * std::exp(b.largest - largest)};
  }
  TUTTI_HOST_DEVICE total row(total const& all, std::size_t) const { return all; }
  TUTTI_HOST_DEVICE float finish(float x, total const& row) const { return std::exp(x - row.largest) / row.sum; }
};

// A row in double.
using doubles = std::vector<double>;

inline doubles rms_norm_of(doubles const& x, doubles const& weight, double epsilon) {
  double squares = 0;
  for (double const v : x) squares += v * v;
  doubles out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    out[i] = x[i] / std::sqrt(squares / static_cast<double>(x.size()) + epsilon) * weight[i];
  return out;
}
inline doubles layer_norm_of(doubles const& x, doubles const& weight, doubles const& bias, double epsilon) {
  double mean = 0, squares = 0;
  for (double const v : x) mean += v / static_cast<double>(x.size());
  for (double const v : x) squares += (v - mean) * (v - mean) / static_cast<double>(x.size());
  doubles out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    out[i] = (x[i] - mean) / std::sqrt(squares + epsilon) * weight[i] + bias[i];
  return out;
}
inline doubles softmax_of(doubles const& x) {
  double const largest = *std::max_element(x.begin(), x.end());
  doubles out(x.size());
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += out[i] = std::exp(x[i] - largest);
  for (double& v : out) v /= sum;
  return out;
}

}  // namespace tutti::testing
