// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A vision transformer (Dosovitskiy et al., 2021): patches of an image are the tokens; blocks of attention and two dense layers;
// the mean of all tokens is classified. Its blocks run one after another, so ranks can also divide them into stages.
#pragma once

#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <Eigen/Core>

#include <tutti/training.hpp>
#include <tutti/tutti.hpp>

#include "layers.hpp"

struct architecture {
  std::size_t side = 8, patch = 2;  // pixels
  std::size_t features = 32, heads = 4, hidden = 128, depth = 4, classes = 10;
  unsigned seed = 1;

  std::size_t tokens() const { return side / patch * (side / patch); }
  std::size_t blocks() const { return depth + 2; }
};

// A row for each token of each image, as layers take them, from images that are columns, stored row by row. Its columns are
// the pixels of a patch.
template <class T, class Images>
matrix<T> patches_of(architecture const& with, Images const& images) {
  std::size_t const across = with.side / with.patch;
  matrix<T> out(index_of(with.tokens()) * images.cols(), index_of(with.patch * with.patch));
  if (out.size() == 0) return out;  // has no parts either
  for (std::size_t token = 0; token < with.tokens(); ++token)
    for (std::size_t pixel = 0; pixel < with.patch * with.patch; ++pixel) {
      std::size_t const y = token / across * with.patch + pixel / with.patch,
                        x = token % across * with.patch + pixel % with.patch;
      out.col(index_of(pixel)).segment(index_of(token) * images.cols(), images.cols()) =
          images.row(index_of(y * with.side + x)).template cast<T>().transpose();
    }
  return out;
}

// A part of the model that turns activations into activations, and gradients back into gradients.
template <class T>
class block {
 public:
  block(architecture const& with, std::size_t index) : parameters_(with.seed, index) {}
  block(block const&) = delete;
  block& operator=(block const&) = delete;
  virtual ~block() = default;

  virtual matrix<T> forward(matrix<T> const& x, int microbatch) = 0;
  // Adds the gradients of its parameters to parameter::gradient.
  virtual matrix<T> backward(matrix<T> const& gradient, int microbatch) = 0;

  std::deque<parameter<T>>& all_parameters() { return parameters_.all(); }

  std::size_t place = 0, first_parameter = 0;  // among the blocks, and all parameters, of this rank

 protected:
  parameters<T> parameters_;
};

// The first: a linear function of a patch, and a vector that depends on its place in the image.
template <class T, class Transport>
class patch_embedding : public block<T> {
 public:
  patch_embedding(architecture const& with, tensor_group<Transport> const& group)
      : block<T>(with, 0),
        group_(group),
        weights_(this->parameters_.whole("patches, weights", {with.patch * with.patch, with.features}, 0,
                                         T(1) / static_cast<T>(with.patch))),
        places_(this->parameters_.whole("places", {with.tokens(), with.features}, 0, T(0.02))) {}

  // All ranks pass all patches, and compute those of their own tokens.
  matrix<T> forward(matrix<T> const& patches, int microbatch) override {
    Eigen::Index const images = patches.rows() / index_of(group_.tokens);
    auto const own = group_.sequence ? group_.own(group_.tokens) : tutti::extent{0, group_.tokens};
    matrix<T> const& mine =
        input_.put(microbatch, patches.middleRows(index_of(own.begin) * images, index_of(own.count) * images));
    matrix<T> y = mine * weights_.as_matrix();
    for (std::size_t t = 0; t < own.count; ++t)
      y.middleRows(index_of(t) * images, images).rowwise() += places_.as_matrix().row(index_of(own.begin + t));
    return y;
  }
  // Images have no gradient.
  matrix<T> backward(matrix<T> const& gradient, int microbatch) override {
    matrix<T> const mine = input_.take(microbatch);
    auto const own = group_.sequence ? group_.own(group_.tokens) : tutti::extent{0, group_.tokens};
    Eigen::Index const images = mine.rows() / index_of(own.count);
    weights_.add_gradient(mine.transpose() * gradient);
    for (std::size_t t = 0; t < own.count; ++t)
      places_.add_gradient(gradient.middleRows(index_of(t) * images, images).colwise().sum(), own.begin + t);
    return {};
  }

 private:
  tensor_group<Transport> group_;
  parameter<T>&weights_, &places_;
  per_microbatch<matrix<T>> input_;
};

// x + attention, then the same + a network of two dense layers, each of a normalised input.
template <class T, class Transport>
class transformer_block : public block<T> {
 public:
  transformer_block(architecture const& with, std::size_t index, tensor_group<Transport> const& group)
      : block<T>(with, index),
        name_("block " + std::to_string(index) + ", "),
        width_(with.features / with.heads),
        before_attention_(this->parameters_, name_ + "norm 1", with.features),
        to_qkv_(this->parameters_, name_ + "queries, keys, values", {with.features, 3, with.heads, width_}, group),
        attention_(with.tokens(), group.own(with.heads).count, width_),
        from_heads_(this->parameters_, name_ + "projection", {with.heads, width_, with.features}, group),
        before_dense_(this->parameters_, name_ + "norm 2", with.features),
        to_hidden_(this->parameters_, name_ + "hidden", {with.features, 1, with.hidden, 1}, group),
        from_hidden_(this->parameters_, name_ + "output", {with.hidden, 1, with.features}, group) {}

  matrix<T> forward(matrix<T> const& x, int m) override {
    matrix<T> const middle =
        x + from_heads_.forward(attention_.forward(to_qkv_.forward(before_attention_.forward(x, m), m), m), m);
    return middle + from_hidden_.forward(gelu_.forward(to_hidden_.forward(before_dense_.forward(middle, m), m), m), m);
  }
  matrix<T> backward(matrix<T> const& gradient, int m) override {
    matrix<T> const middle =
        gradient +
        before_dense_.backward(to_hidden_.backward(gelu_.backward(from_hidden_.backward(gradient, m), m), m), m);
    return middle +
           before_attention_.backward(to_qkv_.backward(attention_.backward(from_heads_.backward(middle, m), m), m), m);
  }

 private:
  std::string name_;
  std::size_t width_;
  layer_norm<T> before_attention_;
  column_linear<T, Transport> to_qkv_;
  attention<T> attention_;
  row_linear<T, Transport> from_heads_;
  layer_norm<T> before_dense_;
  column_linear<T, Transport> to_hidden_;
  gelu<T> gelu_;
  row_linear<T, Transport> from_hidden_;
};

// The last: the logits of each image, of which a rank has some classes.
template <class T, class Transport>
class class_head : public block<T> {
 public:
  class_head(architecture const& with, tensor_group<Transport> const& group)
      : block<T>(with, with.blocks() - 1),
        group_(group),
        norm_(this->parameters_, "last norm", with.features),
        to_classes_(this->parameters_, "classes", {with.features, 1, with.classes, 1}, group.without_sequence()) {}

  matrix<T> forward(matrix<T> const& x, int microbatch) override {
    matrix<T> const normal = norm_.forward(x, microbatch);
    Eigen::Index const own = index_of(group_.own_tokens()), images = x.rows() / own;
    matrix<T> mean = matrix<T>::Zero(images, x.cols());
    for (Eigen::Index t = 0; t < own; ++t) mean += normal.middleRows(t * images, images);
    mean /= static_cast<T>(group_.tokens);
    if (group_.sequence)
      group_.communication([&] { tutti::training::reduce_from_group{}.forward(group_.ranks, elements(mean)); });
    return to_classes_.forward(mean, microbatch);
  }
  matrix<T> backward(matrix<T> const& gradient, int microbatch) override {
    matrix<T> const mean = to_classes_.backward(gradient, microbatch) / static_cast<T>(group_.tokens);
    return norm_.backward(mean.replicate(index_of(group_.own_tokens()), 1), microbatch);
  }

 private:
  tensor_group<Transport> group_;
  layer_norm<T> norm_;
  column_linear<T, Transport> to_classes_;
};

// Some blocks of the model that follow each other.
template <class T, class Transport>
class stage {
 public:
  // Stage `index` of `stages`; the first has the patches, too, and the last the classes.
  stage(architecture const& with, int stages, int index, tensor_group<Transport> const& group) : group_(group) {
    if (index == 0) blocks_.push_back(std::make_unique<patch_embedding<T, Transport>>(with, group));
    tutti::extent const mine = tutti::part(with.depth, stages, index);
    for (std::size_t b = mine.begin; b < mine.end(); ++b)
      blocks_.push_back(std::make_unique<transformer_block<T, Transport>>(with, b + 1, group));
    if (index == stages - 1) blocks_.push_back(std::make_unique<class_head<T, Transport>>(with, group));
  }

  std::vector<std::unique_ptr<block<T>>> const& blocks() const { return blocks_; }

  // gather(block) brings the parameters of a block here, while what it returns exists.
  template <class Gather>
  matrix<T> forward(matrix<T> x, int microbatch, Gather&& gather) {
    for (auto const& b : blocks_) {
      [[maybe_unused]] auto const here = gather(*b);
      x = b->forward(x, microbatch);
    }
    return x;
  }
  // Here gather(block) brings the gradients, too. Calls complete(block) as soon as a block has added its gradients of the last of the
  // microbatches.
  template <class Gather, class Complete>
  matrix<T> backward(matrix<T> gradient, int microbatch, bool is_last, Gather&& gather, Complete&& complete) {
    for (auto b = blocks_.rbegin(); b != blocks_.rend(); ++b) {
      [[maybe_unused]] auto const here = gather(**b);
      gradient = (*b)->backward(gradient, microbatch);
      if (!is_last) continue;
      add_up_parts((*b)->all_parameters());
      complete(**b);
    }
    return gradient;
  }

 private:
  // Where each rank has a part of the tokens, parameters that all ranks have got gradients of these tokens only. Otherwise
  // all ranks have computed the same from the same numbers.
  void add_up_parts(std::deque<parameter<T>>& all) {
    if (!group_.sequence) return;
    std::vector<std::span<T>> parts;
    for (auto& p : all)
      if (!p.is_divided) parts.push_back(p.gradient);
    group_.communication([&] { tutti::all_reduce(group_.ranks, parts); });
  }

  tensor_group<Transport> group_;
  std::vector<std::unique_ptr<block<T>>> blocks_;
};
