// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A network of three layers: pixels -> hidden units -> hidden units (tanh) -> classes (softmax, cross-entropy).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <tutti/training/parameter.hpp>

#include "../digits/digits.hpp"

class network {
 public:
  static constexpr std::size_t layers = 3;

  // With so many units in each hidden layer.
  explicit network(Eigen::Index hidden) : units_{pixels, hidden, hidden, classes} {}

  // All numbers of the network, layer after layer.
  Eigen::Index size() const { return begin(layers); }

  // The matrix and the offsets of each layer, which are parameters 2 l and 2 l + 1, in an array of all. Eigen's matrices
  // lie column by column, so the column is the first index of the shape.
  std::vector<tutti::training::parameter<float>> parameters(Eigen::VectorXf& weights) const {
    std::vector<tutti::training::parameter<float>> out;
    for (std::size_t l = 0; l < layers; ++l) {
      std::string const name = "layer " + std::to_string(l + 1);
      auto const rows = static_cast<std::size_t>(units_[l + 1]), columns = static_cast<std::size_t>(units_[l]);
      float* const first = weights.data() + begin(l);
      out.push_back({{first, rows * columns}, name + ", weights", {columns, rows}});
      out.push_back({{first + rows * columns, rows}, name + ", offsets", {rows}});
    }
    return out;
  }

  // Weights as LeCun et al. (1998) draw them for tanh, no offsets.
  Eigen::VectorXf draw_weights(unsigned seed) const {
    Eigen::VectorXf weights = Eigen::VectorXf::Zero(size());
    std::mt19937 random(seed);
    for (std::size_t l = 0; l < layers; ++l) {
      std::normal_distribution<float> normal(0, std::sqrt(1.0f / static_cast<float>(units_[l])));
      for (float& w : weights.segment(begin(l), units_[l + 1] * units_[l])) w = normal(random);
    }
    return weights;
  }

  struct score {
    double loss = 0;  // summed over images
    double right = 0;
  };

  // `model` has the parameters of a layer from gather(layer) on, until what that returns is destroyed.
  template <class Model>
  score evaluate(digits const& some, Eigen::Index from, Eigen::Index count, Model& model) {
    score out;
    active_[0] = some.images.middleCols(from, count);
    forward(model);
    softmax(out, [&](Eigen::Index i) { return some.labels[static_cast<std::size_t>(from + i)]; });
    return out;
  }

  // Writes the gradients of the loss, summed over the images of `chosen` and multiplied by `scale`, to `model`, and
  // reports each as soon as it is ready.
  template <class Model>
  score learn(digits const& from, std::span<Eigen::Index const> chosen, float scale, Model& model) {
    Eigen::Map<Eigen::Array<Eigen::Index, Eigen::Dynamic, 1> const> const columns(
        chosen.data(), static_cast<Eigen::Index>(chosen.size()));
    active_[0] = from.images(Eigen::seq(0, from.images.rows() - 1), columns);
    forward(model);
    score out;
    softmax(out,
            [&](Eigen::Index i) { return from.labels[static_cast<std::size_t>(chosen[static_cast<std::size_t>(i)])]; });
    // The gradient of softmax and cross-entropy is the probability, less one at the right class.
    back_ = scale * active_[layers];
    for (std::size_t l = layers; l-- > 0;) {
      auto const here = model.gather(l);
      Eigen::VectorXf::Map(model.gradient(2 * l + 1).data(), units_[l + 1]) = back_.rowwise().sum();
      model.ready(2 * l + 1);
      Eigen::MatrixXf::Map(model.gradient(2 * l).data(), units_[l + 1], units_[l]).noalias() =
          back_ * active_[l].transpose();
      model.ready(2 * l);
      if (l == 0) break;
      next_back_.noalias() = matrix(model, l).transpose() * back_;
      back_ = next_back_.array() * (1 - active_[l].array().square());
    }
    return out;
  }

 private:
  // Where the matrix of a layer, from units_[l] to units_[l + 1], begins. Its offsets follow.
  Eigen::Index begin(std::size_t layer) const {
    Eigen::Index at = 0;
    for (std::size_t l = 0; l < layer; ++l) at += units_[l + 1] * (units_[l] + 1);
    return at;
  }
  template <class Model>
  Eigen::Map<Eigen::MatrixXf const> matrix(Model& model, std::size_t l) const {
    return {model.parameter(2 * l).data(), units_[l + 1], units_[l]};
  }

  template <class Model>
  void forward(Model& model) {
    for (std::size_t l = 0; l < layers; ++l) {
      auto const here = model.gather(l);
      active_[l + 1].noalias() = matrix(model, l) * active_[l];
      active_[l + 1].colwise() += Eigen::VectorXf::Map(model.parameter(2 * l + 1).data(), units_[l + 1]);
      if (l + 1 < layers) active_[l + 1] = active_[l + 1].array().tanh();
    }
  }

  // Turns the output into the gradient of the loss with respect to it.
  template <class Label>
  void softmax(score& out, Label label) {
    Eigen::MatrixXf& output = active_[layers];
    for (Eigen::Index i = 0; i < output.cols(); ++i) {
      auto column = output.col(i);
      Eigen::Index best = 0;
      float const greatest = column.maxCoeff(&best);
      column = (column.array() - greatest).exp();
      column /= column.sum();
      out.loss -= std::log(std::max(column(label(i)), 1e-30f));
      out.right += best == label(i) ? 1 : 0;
      column(label(i)) -= 1;
    }
  }

  std::array<Eigen::Index, layers + 1> units_;
  std::array<Eigen::MatrixXf, layers + 1> active_;  // the images, and the output of each layer
  Eigen::MatrixXf back_, next_back_;
};
