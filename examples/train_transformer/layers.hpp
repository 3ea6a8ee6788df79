// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layers of a transformer, forward and backward by hand, which the ranks of a tensor group divide (docs/training.md).
// Activations are row-major matrices with a row for each token of each image: all images of the first token, then those of the
// second. For each microbatch, layers keep what its backward pass needs until it has run.
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <deque>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <Eigen/Core>

#include <tutti/training.hpp>
#include <tutti/tutti.hpp>

template <class T>
using matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using matrix_map = Eigen::Map<matrix<T>>;
template <class T>
using const_matrix_map = Eigen::Map<matrix<T> const>;
template <class T>
using const_row_map = Eigen::Map<Eigen::Matrix<T, 1, Eigen::Dynamic> const>;

inline Eigen::Index index_of(std::size_t n) { return static_cast<Eigen::Index>(n); }
inline std::size_t size_of(Eigen::Index n) { return static_cast<std::size_t>(n); }

template <class T>
std::span<T> elements(matrix<T>& m) {
  return {m.data(), size_of(m.size())};
}
template <class T>
std::span<T const> elements(matrix<T> const& m) {
  return {m.data(), size_of(m.size())};
}

// What a layer keeps of each microbatch, from its forward to its backward pass.
template <class Kept>
class per_microbatch {
 public:
  Kept& put(int microbatch, Kept some) { return all_.insert_or_assign(microbatch, std::move(some)).first->second; }
  Kept take(int microbatch) { return std::move(all_.extract(microbatch).mapped()); }

 private:
  std::map<int, Kept> all_;
};

// -- How ranks divide a layer.

// The time in which a rank communicates and does nothing else.
class stopwatch {
 public:
  template <class F>
  auto operator()(F&& f) {
    running const until_return{total_};
    return f();
  }
  std::chrono::duration<double> total() const { return total_; }

 private:
  using clock = std::chrono::steady_clock;
  struct running {
    clock::duration& total;
    clock::time_point begin = clock::now();
    ~running() { total += clock::now() - begin; }
  };
  clock::duration total_{};
};

// The ranks that divide the layers of a model. With `sequence`, each has a part of the tokens between layers; without, all
// have all of them.
template <class Transport>
struct tensor_group {
  tutti::communicator<Transport>& ranks;
  bool sequence;
  std::size_t tokens;  // of an image
  stopwatch& communication;

  tutti::extent own(std::size_t extent) const { return tutti::part(extent, ranks.size(), ranks.rank()); }
  std::size_t own_tokens() const { return sequence ? own(tokens).count : tokens; }
  // Tokens are the slowest dimension of activations, so those of a rank are adjacent.
  tutti::training::sharded_dimension by_tokens(std::size_t images, std::size_t features) const {
    return {.extent = tokens, .inner = images * features};
  }
  tensor_group without_sequence() const { return {ranks, false, tokens, communication}; }
};

// A parameter, or this rank's part of it, and its gradient, to which backward passes add.
template <class T>
struct parameter {
  std::string name;
  std::vector<std::size_t> shape;
  bool is_divided;       // among the ranks of the tensor group; otherwise all have it
  std::vector<T> drawn;  // the first values; no longer there if the ranks of the data axis shard them
  std::span<T const> values{};
  std::span<T> gradient{};

  const_matrix_map<T> as_matrix() const { return {values.data(), index_of(shape.at(0)), index_of(shape.at(1))}; }
  const_row_map<T> as_row() const { return {values.data(), index_of(values.size())}; }
  // Adds to the gradient, or to some rows of it. The sum is computed in memory of its own first: Eigen adds up in another order
  // where the destination is aligned differently, and ranks that have the same parameter need the same bits.
  template <class Expression>
  void add_gradient(Expression const& some, std::size_t first_row = 0) {
    matrix<T> const computed = some;
    matrix_map<T>(gradient.data() + index_of(first_row) * computed.cols(), computed.rows(), computed.cols()) +=
        computed;
  }
};

// The parameters of a block of layers. A whole parameter is drawn from the seed and its place in the model on every rank, which
// keeps its own part. So a model does not depend on how it is divided.
template <class T>
class parameters {
 public:
  parameters(unsigned seed, std::size_t block) : seed_(seed), block_(static_cast<unsigned>(block)) {}

  parameter<T>& whole(std::string name, std::vector<std::size_t> shape, T mean, T deviation) {
    std::size_t n = 1;
    for (std::size_t const extent : shape) n *= extent;
    return add({std::move(name), std::move(shape), false, draw(n, mean, deviation)});
  }
  // `shape` is that of this rank's part of the whole, which `along` describes.
  template <class Transport>
  parameter<T>& divided(std::string name, std::vector<std::size_t> shape,
                        tutti::training::sharded_dimension const& along, tensor_group<Transport> const& group,
                        T deviation) {
    std::vector<T> const whole = draw(along.size(), 0, deviation);
    std::vector<T> mine(along.size(group.ranks.size(), group.ranks.rank()));
    along.copy_part(std::span(whole), std::span(mine), group.ranks.size(), group.ranks.rank());
    return add({std::move(name), std::move(shape), true, std::move(mine)});
  }

  std::deque<parameter<T>>& all() { return all_; }  // never move

 private:
  parameter<T>& add(parameter<T> some) {
    parameter<T>& out = all_.emplace_back(std::move(some));
    out.values = out.drawn;
    return out;
  }
  std::vector<T> draw(std::size_t n, T mean, T deviation) {
    std::seed_seq place{seed_, block_, static_cast<unsigned>(all_.size())};
    std::mt19937 random(place);
    std::normal_distribution<T> normal(0, 1);
    std::vector<T> out(n);
    for (T& x : out) x = mean + deviation * normal(random);
    return out;
  }

  unsigned seed_, block_;
  std::deque<parameter<T>> all_;
};

// -- Layers that are divided.

// y = x W + b, with whole x. Each rank has some columns of W, and gets these of y.
template <class T, class Transport>
class column_linear {
 public:
  // `repeats` matrices side by side, each of `inputs` x extent * width, are divided by their extents.
  struct shape {
    std::size_t inputs, repeats, extent, width;
  };
  column_linear(parameters<T>& owner, std::string const& name, shape s, tensor_group<Transport> const& group)
      : group_(group) {
    std::size_t const columns = s.repeats * group.own(s.extent).count * s.width;
    weights_ = &owner.divided(name + ", weights", {s.inputs, columns}, {s.inputs * s.repeats, s.extent, s.width}, group,
                              1 / std::sqrt(static_cast<T>(s.inputs)));
    offsets_ = &owner.divided(name + ", offsets", {columns}, {s.repeats, s.extent, s.width}, group, 0);
  }

  matrix<T> forward(matrix<T> const& x, int microbatch) {
    matrix<T>& whole = input_.put(microbatch, x);
    if (group_.sequence) {
      auto const images = size_of(x.rows()) / group_.own_tokens(), features = size_of(x.cols());
      whole.resize(index_of(group_.tokens * images), x.cols());
      group_.communication([&] {
        tutti::training::gather_sequence{group_.by_tokens(images, features)}.forward(group_.ranks, elements(x),
                                                                                     elements(whole));
      });
    }
    matrix<T> y = whole * weights_->as_matrix();
    y.rowwise() += offsets_->as_row();
    return y;
  }

  // The gradient of x is summed over the ranks while this one computes that of W.
  matrix<T> backward(matrix<T> const& gradient, int microbatch) {
    matrix<T> const whole = input_.take(microbatch);
    matrix<T> partial = gradient * weights_->as_matrix().transpose(), mine;
    tutti::work sum;
    if (group_.sequence) {
      auto const images = size_of(whole.rows()) / group_.tokens, features = size_of(whole.cols());
      mine.resize(index_of(group_.own_tokens() * images), whole.cols());
      sum = tutti::training::gather_sequence{group_.by_tokens(images, features)}.backward(
          tutti::async(group_.ranks), elements(std::as_const(partial)), elements(mine));
    } else {
      sum = tutti::training::copy_to_group{}.backward(tutti::async(group_.ranks), elements(partial));
    }
    weights_->add_gradient(whole.transpose() * gradient);
    offsets_->add_gradient(gradient.colwise().sum());
    group_.communication([&] { sum.wait(); });
    return group_.sequence ? mine : partial;
  }

 private:
  tensor_group<Transport> group_;
  parameter<T>*weights_, *offsets_;
  per_microbatch<matrix<T>> input_;
};

// y = x W + b, with whole y. Each rank has some rows of W, multiplies these columns of x, and the sum over the ranks is y.
template <class T, class Transport>
class row_linear {
 public:
  // A matrix of extent * width x `outputs` is divided by its extent.
  struct shape {
    std::size_t extent, width, outputs;
  };
  row_linear(parameters<T>& owner, std::string const& name, shape s, tensor_group<Transport> const& group)
      : group_(group) {
    weights_ =
        &owner.divided(name + ", weights", {group.own(s.extent).count * s.width, s.outputs},
                       {1, s.extent, s.width * s.outputs}, group, 1 / std::sqrt(static_cast<T>(s.extent * s.width)));
    offsets_ = &owner.whole(name + ", offsets", {s.outputs}, 0, 0);
  }

  matrix<T> forward(matrix<T> x, int microbatch) {
    matrix<T> partial = x * weights_->as_matrix(), y;
    input_.put(microbatch, std::move(x));
    if (group_.sequence) {
      auto const images = size_of(partial.rows()) / group_.tokens, features = size_of(partial.cols());
      y.resize(index_of(group_.own_tokens() * images), partial.cols());
      group_.communication([&] {
        tutti::training::reduce_scatter_sequence{group_.by_tokens(images, features)}.forward(
            group_.ranks, elements(std::as_const(partial)), elements(y));
      });
    } else {
      group_.communication([&] { tutti::training::reduce_from_group{}.forward(group_.ranks, elements(partial)); });
      y = std::move(partial);
    }
    y.rowwise() += offsets_->as_row();
    return y;
  }

  matrix<T> backward(matrix<T> const& gradient, int microbatch) {
    matrix<T> const x = input_.take(microbatch);
    offsets_->add_gradient(gradient.colwise().sum());
    if (!group_.sequence) return multiply_back(x, gradient);
    auto const images = size_of(x.rows()) / group_.tokens, features = size_of(gradient.cols());
    matrix<T> whole(x.rows(), gradient.cols());
    group_.communication([&] {
      tutti::training::reduce_scatter_sequence{group_.by_tokens(images, features)}.backward(
          group_.ranks, elements(gradient), elements(whole));
    });
    return multiply_back(x, whole);
  }

 private:
  matrix<T> multiply_back(matrix<T> const& x, matrix<T> const& gradient) {
    weights_->add_gradient(x.transpose() * gradient);
    return gradient * weights_->as_matrix().transpose();
  }

  tensor_group<Transport> group_;
  parameter<T>*weights_, *offsets_;
  per_microbatch<matrix<T>> input_;
};

// -- Layers that every rank computes on the rows and columns that it has.

// (x - mean) / deviation of each row, times a gain, plus an offset.
template <class T>
class layer_norm {
 public:
  layer_norm(parameters<T>& owner, std::string const& name, std::size_t features)
      : gain_(&owner.whole(name + ", gain", {features}, 1, 0)),
        offsets_(&owner.whole(name + ", offsets", {features}, 0, 0)) {}

  matrix<T> forward(matrix<T> const& x, int microbatch) {
    kept& k = kept_.put(microbatch, {});
    k.normal = x.colwise() - x.rowwise().mean();
    k.scale = (k.normal.rowwise().squaredNorm().array() / static_cast<T>(x.cols()) + T(1e-5)).rsqrt();
    k.normal.array().colwise() *= k.scale;
    matrix<T> y = k.normal.array().rowwise() * gain_->as_row().array();
    y.rowwise() += offsets_->as_row();
    return y;
  }
  matrix<T> backward(matrix<T> const& gradient, int microbatch) {
    kept const k = kept_.take(microbatch);
    gain_->add_gradient(k.normal.cwiseProduct(gradient).colwise().sum());
    offsets_->add_gradient(gradient.colwise().sum());
    matrix<T> out = gradient.array().rowwise() * gain_->as_row().array();
    Eigen::Array<T, Eigen::Dynamic, 1> const mean = out.rowwise().mean(),
                                             along = out.cwiseProduct(k.normal).rowwise().mean();
    out.array() -= k.normal.array().colwise() * along;
    out.array().colwise() -= mean;
    out.array().colwise() *= k.scale;
    return out;
  }

 private:
  struct kept {
    matrix<T> normal;
    Eigen::Array<T, Eigen::Dynamic, 1> scale;
  };
  parameter<T>*gain_, *offsets_;
  per_microbatch<kept> kept_;
};

// x times the probability that a normal variable is below x (Hendrycks and Gimpel, 2016).
template <class T>
class gelu {
 public:
  matrix<T> forward(matrix<T> const& x, int microbatch) {
    return input_.put(microbatch, x).unaryExpr([](T v) { return v * below(v); });
  }
  matrix<T> backward(matrix<T> const& gradient, int microbatch) {
    matrix<T> const x = input_.take(microbatch);
    T const density = T(0.3989422804014327);  // 1 / sqrt(2 pi)
    return gradient.cwiseProduct(x.unaryExpr([density](T v) { return below(v) + v * density * std::exp(-v * v / 2); }));
  }

 private:
  static T below(T v) { return T(0.5) * std::erfc(-v * T(0.7071067811865476)); }
  per_microbatch<matrix<T>> input_;
};

// softmax(Q K' / sqrt(width)) V for each image and head (Vaswani et al., 2017), given rows of Q, K and V side by side. A rank
// has some of the heads.
template <class T>
class attention {
 public:
  attention(std::size_t tokens, std::size_t heads, std::size_t width)
      : tokens_(index_of(tokens)), heads_(index_of(heads)), width_(index_of(width)) {}

  matrix<T> forward(matrix<T> qkv, int microbatch) {
    Eigen::Index const images = qkv.rows() / tokens_;
    kept& k = kept_.put(microbatch, {std::move(qkv), {}});
    matrix<T> out(k.qkv.rows(), heads_ * width_);
    for (Eigen::Index image = 0; image < images; ++image)
      for (Eigen::Index head = 0; head < heads_; ++head) {
        matrix<T> scores = (of(k.qkv, 0, image, head) * of(k.qkv, 1, image, head).transpose()) * scale();
        scores.colwise() -= scores.rowwise().maxCoeff().eval();
        scores = scores.array().exp();
        scores.array().colwise() /= scores.rowwise().sum().array().eval();
        of(out, 0, image, head).noalias() = scores * of(k.qkv, 2, image, head);
        k.scores.push_back(std::move(scores));
      }
    return out;
  }
  matrix<T> backward(matrix<T> gradient, int microbatch) {
    kept k = kept_.take(microbatch);
    Eigen::Index const images = k.qkv.rows() / tokens_;
    matrix<T> out(k.qkv.rows(), k.qkv.cols());
    for (Eigen::Index image = 0; image < images; ++image)
      for (Eigen::Index head = 0; head < heads_; ++head) {
        matrix<T> const& p = k.scores[size_of(image * heads_ + head)];
        auto const g = of(gradient, 0, image, head);
        of(out, 2, image, head).noalias() = p.transpose() * g;
        matrix<T> of_scores = g * of(k.qkv, 2, image, head).transpose();
        of_scores.colwise() -= of_scores.cwiseProduct(p).rowwise().sum().eval();
        of_scores = of_scores.cwiseProduct(p) * scale();
        of(out, 0, image, head).noalias() = of_scores * of(k.qkv, 1, image, head);
        of(out, 1, image, head).noalias() = of_scores.transpose() * of(k.qkv, 0, image, head);
      }
    return out;
  }

 private:
  struct kept {
    matrix<T> qkv;
    std::vector<matrix<T>> scores;  // tokens x tokens, of each image and head
  };
  // The rows of an image, and the columns of a head, in Q, K or V.
  auto of(matrix<T>& m, Eigen::Index which, Eigen::Index image, Eigen::Index head) const {
    Eigen::Index const images = m.rows() / tokens_, column = (which * heads_ + head) * width_;
    return Eigen::Map<matrix<T>, 0, Eigen::OuterStride<>>(m.data() + image * m.cols() + column, tokens_, width_,
                                                          Eigen::OuterStride<>(images * m.cols()));
  }
  T scale() const { return 1 / std::sqrt(static_cast<T>(width_)); }

  Eigen::Index tokens_, heads_, width_;
  per_microbatch<kept> kept_;
};
