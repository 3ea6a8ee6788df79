// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small network, and its training by one process without communication.
#pragma once

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace tutti::testing {

// Row-major.
struct matrix_by_rows {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values = std::vector<double>(rows * columns);

  double& operator()(std::size_t i, std::size_t j) { return values[i * columns + j]; }
  double operator()(std::size_t i, std::size_t j) const { return values[i * columns + j]; }
  void operator+=(matrix_by_rows const& other) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += other.values[i];
  }
};
inline matrix_by_rows transposed(matrix_by_rows const& a) {
  matrix_by_rows out{a.columns, a.rows};
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < a.columns; ++j) out(j, i) = a(i, j);
  return out;
}
inline matrix_by_rows product(matrix_by_rows const& a, matrix_by_rows const& b) {
  matrix_by_rows out{a.rows, b.columns};
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t k = 0; k < a.columns; ++k)
      for (std::size_t j = 0; j < b.columns; ++j) out(i, j) += a(i, k) * b(k, j);
  return out;
}
inline matrix_by_rows sum_of_rows(matrix_by_rows const& a) {
  matrix_by_rows out{1, a.columns};
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < a.columns; ++j) out(0, j) += a(i, j);
  return out;
}

// Layers x -> x + offsets + tanh(x in') out, or those units of their hidden layers that a rank has. Parameter 3 l + k is the k-th
// of layer l.
struct residual_layer {
  matrix_by_rows in, out;  // hidden units x features
  matrix_by_rows offsets;  // 1 x features

  // What a layer keeps for its backward pass.
  struct kept {
    matrix_by_rows x, hidden;
  };
  // Without x and the offsets.
  std::pair<matrix_by_rows, kept> forward(matrix_by_rows const& x) const {
    matrix_by_rows hidden = product(x, transposed(in));
    for (double& h : hidden.values) h = std::tanh(h);
    matrix_by_rows y = product(hidden, out);
    return {std::move(y), {x, std::move(hidden)}};
  }
  // Adds to `gradients`, but for the offsets, and returns the gradient of x through the hidden units.
  matrix_by_rows backward(kept const& at, matrix_by_rows const& gradient, residual_layer& gradients) const {
    matrix_by_rows of_hidden = product(gradient, transposed(out));
    for (std::size_t i = 0; i < of_hidden.values.size(); ++i)
      of_hidden.values[i] *= 1 - at.hidden.values[i] * at.hidden.values[i];
    gradients.out += product(transposed(at.hidden), gradient);
    gradients.in += product(transposed(of_hidden), at.x);
    return product(of_hidden, in);
  }
  std::vector<matrix_by_rows*> parameters() { return {&in, &out, &offsets}; }
};

// The training: few rows of data, which most numbers of ranks do not divide.
struct residual_course {
  static constexpr std::size_t features = 4, hidden = 5, rows = 40, steps = 2;
  static constexpr double rate = 0.03, factor = 0.9;  // of momentum

  static residual_layer layer(std::size_t l) {
    residual_layer out{{hidden, features}, {hidden, features}, {1, features}};
    double at = static_cast<double>(l);
    for (matrix_by_rows* const p : out.parameters())
      for (double& x : p->values) x = 0.4 * std::sin(at += 1.7);
    return out;
  }
  static residual_layer zeros(residual_layer const& like) {
    return {{like.in.rows, features}, {like.out.rows, features}, {1, features}};
  }
  static matrix_by_rows data(std::size_t begin, std::size_t count) {
    matrix_by_rows out{count, features};
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = 0; j < features; ++j) out(i, j) = std::cos(static_cast<double>((begin + i) * 3 + j));
    return out;
  }
  // Half the sum of the squared errors of these rows; `y` becomes its gradient.
  static double loss(matrix_by_rows& y, std::size_t begin) {
    double out = 0;
    for (std::size_t i = 0; i < y.rows; ++i)
      for (std::size_t j = 0; j < features; ++j) {
        y(i, j) -= 0.02 * static_cast<double>((begin + i) * (j + 1) % 37);
        out += y(i, j) * y(i, j) / 2;
      }
    return out;
  }
};

// What one process arrives at: the loss of each step, the norm of its gradients, and the layers.
struct trained_network {
  std::vector<double> losses{}, norms{};
  std::vector<residual_layer> layers{};
};
inline trained_network network_of_one_process(std::size_t layers) {
  using course = residual_course;
  trained_network out;
  std::vector<residual_layer> velocities;
  for (std::size_t l = 0; l < layers; ++l) {
    out.layers.push_back(course::layer(l));
    velocities.push_back(course::zeros(out.layers[l]));
  }
  for (std::size_t step = 0; step < course::steps; ++step) {
    matrix_by_rows x = course::data(0, course::rows);
    std::vector<residual_layer::kept> kept;
    for (auto const& layer : out.layers) {
      auto [y, some] = layer.forward(x);
      for (std::size_t i = 0; i < y.rows; ++i)
        for (std::size_t j = 0; j < y.columns; ++j) x(i, j) += layer.offsets(0, j) + y(i, j);
      kept.push_back(std::move(some));
    }
    out.losses.push_back(course::loss(x, 0));
    for (double& g : x.values) g /= static_cast<double>(course::rows);
    double squares = 0;
    for (std::size_t l = layers; l-- > 0;) {
      residual_layer gradients = course::zeros(out.layers[l]);
      gradients.offsets += sum_of_rows(x);
      x += out.layers[l].backward(kept[l], x, gradients);
      for (std::size_t k = 0; k < 3; ++k) {
        matrix_by_rows &values = *out.layers[l].parameters()[k], &velocity = *velocities[l].parameters()[k];
        for (std::size_t i = 0; i < values.values.size(); ++i) {
          double const gradient = gradients.parameters()[k]->values[i];
          squares += gradient * gradient;
          velocity.values[i] = course::factor * velocity.values[i] + gradient;
          values.values[i] -= course::rate * velocity.values[i];
        }
      }
    }
    out.norms.push_back(std::sqrt(squares));
  }
  return out;
}

}  // namespace tutti::testing
