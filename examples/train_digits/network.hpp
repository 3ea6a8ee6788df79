// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A network of two layers: pixels -> hidden units (ReLU) -> classes (softmax, cross-entropy).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>

#include "digits.hpp"

// All its numbers are one vector, so that gradients of all layers travel in one all_reduce.
class network {
 private:
  // Where each layer's numbers are in the vector.
  template <class Vector>
  static auto first(Vector& v) {
    return v.segment(0, hidden * pixels).reshaped(hidden, pixels);
  }
  template <class Vector>
  static auto first_offset(Vector& v) {
    return v.segment(hidden * pixels, hidden);
  }
  template <class Vector>
  static auto second(Vector& v) {
    return v.segment(hidden * (pixels + 1), classes * hidden).reshaped(classes, hidden);
  }
  template <class Vector>
  static auto second_offset(Vector& v) {
    return v.tail(classes);
  }

 public:
  static constexpr Eigen::Index hidden = 64;
  static constexpr Eigen::Index parameters = hidden * pixels + hidden + classes * hidden + classes;

  Eigen::VectorXf weights = Eigen::VectorXf::Zero(parameters);

  // Weights as He et al. (2015) draw them for ReLU, no offsets.
  void draw_weights(unsigned seed) {
    std::mt19937 random(seed);
    auto const draw = [&](auto matrix) {
      std::normal_distribution<float> normal(0, std::sqrt(2.0f / static_cast<float>(matrix.cols())));
      for (float& w : matrix.reshaped()) w = normal(random);
    };
    draw(first(weights));
    draw(second(weights));
  }

  struct score {
    double loss = 0;  // summed over images
    double right = 0;
  };

  score evaluate(digits const& some, Eigen::Index from, Eigen::Index count) {
    score out;
    forward(some.images.middleCols(from, count));
    softmax(out, [&](Eigen::Index i) { return some.labels[static_cast<std::size_t>(from + i)]; });
    return out;
  }

  // Sums, over the images of `chosen`, the gradients of the loss into `gradient`.
  template <class Gradient>
  score learn(digits const& from, std::span<Eigen::Index const> chosen, Gradient&& gradient) {
    Eigen::Map<Eigen::Array<Eigen::Index, Eigen::Dynamic, 1> const> const columns(
        chosen.data(), static_cast<Eigen::Index>(chosen.size()));
    input_ = from.images(Eigen::all, columns);
    score out;
    forward(input_);
    softmax(out,
            [&](Eigen::Index i) { return from.labels[static_cast<std::size_t>(chosen[static_cast<std::size_t>(i)])]; });
    // The gradient of softmax and cross-entropy is the probability, less one at the right class.
    back_ = (second(weights).transpose() * output_).cwiseProduct((active_.array() > 0).cast<float>().matrix());
    second(gradient).noalias() = output_ * active_.transpose();
    second_offset(gradient) = output_.rowwise().sum();
    first(gradient).noalias() = back_ * input_.transpose();
    first_offset(gradient) = back_.rowwise().sum();
    return out;
  }

 private:
  template <class Images>
  void forward(Images const& images) {
    active_.noalias() = first(weights) * images;
    active_ = (active_.colwise() + first_offset(weights)).cwiseMax(0.0f);
    output_.noalias() = second(weights) * active_;
    output_.colwise() += second_offset(weights);
  }

  // Turns output_ into the gradient of the loss with respect to it.
  template <class Label>
  void softmax(score& out, Label label) {
    for (Eigen::Index i = 0; i < output_.cols(); ++i) {
      auto column = output_.col(i);
      Eigen::Index best = 0;
      float const greatest = column.maxCoeff(&best);
      column = (column.array() - greatest).exp();
      column /= column.sum();
      out.loss -= std::log(std::max(column(label(i)), 1e-30f));
      out.right += best == label(i) ? 1 : 0;
      column(label(i)) -= 1;
    }
  }

  Eigen::MatrixXf input_, active_, output_, back_;
};
