// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks that share the layers of a model send each other in the forward pass, and its conjugate in the backward pass.
#pragma once

#include <algorithm>
#include <memory>
#include <ranges>
#include <source_location>
#include <span>
#include <type_traits>
#include <vector>

#include "tutti/call/argument.hpp"
#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_gather.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/collective/reduce_scatter.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/training/tensor/sharded_dimension.hpp"

namespace tutti {
namespace detail {

template <class R>
using element_of_array = std::remove_cv_t<std::ranges::range_value_t<R>>;

// The sum of all ranks' arrays, in each of them.
template <class Array, class Comm>
auto sum_in_place(Comm&& group, Array& array, std::source_location where) {
  static_assert(in_place_argument<Array>,
                "the sum replaces the elements of this array, so it must be neither const nor temporary");
  if constexpr (in_place_argument<Array>) return all_reduce(group, array, sum{}, {}, where);
}

// The parts of all ranks as one array, on every rank. They arrive one after another, which is their place in the array
// already if there is nothing outside of the divided dimension.
template <class Comm, class T>
auto gather_along(Comm&& group, training::sharded_dimension const& along, std::span<T const> part, std::span<T> whole,
                  std::source_location where) {
  int const ranks = group.size();
  expect_sharded(along, whole.size(), part.size(), ranks, group.rank(), where);
  auto const sizes = along.sizes(ranks);
  if (along.outer == 1) return all_gather_v(group, part, whole, sizes, {}, {}, where);
  auto const unpack = [=](std::vector<T> const& all) {
    std::span<T const> left(all);
    for (int r = 0; r < ranks; ++r) {
      along.place_part(left.first(along.size(ranks, r)), whole, ranks, r);
      left = left.subspan(along.size(ranks, r));
    }
  };
  if constexpr (is_communicator<std::remove_cvref_t<Comm>>) {
    std::vector<T> all(whole.size());
    all_gather_v(group, part, all, sizes, {}, {}, where);
    unpack(all);
  } else {
    auto const all = std::make_shared<std::vector<T>>(whole.size());
    return all_gather_v(group, part, *all, sizes, {}, {}, where).then([all, unpack] { unpack(*all); });
  }
}

// This rank's part of the sum of all ranks' arrays.
template <class Comm, class T>
auto reduce_scatter_along(Comm&& group, training::sharded_dimension const& along, std::span<T const> whole,
                          std::span<T> part, std::source_location where) {
  int const ranks = group.size();
  expect_sharded(along, whole.size(), part.size(), ranks, group.rank(), where);
  auto const sizes = along.sizes(ranks);
  if (along.outer == 1) return reduce_scatter_v(group, whole, part, sizes, sum{}, {}, where);
  auto const pack = [&](std::span<T> all) {
    for (int r = 0; r < ranks; ++r) {
      along.copy_part(whole, all.first(along.size(ranks, r)), ranks, r);
      all = all.subspan(along.size(ranks, r));
    }
  };
  if constexpr (is_communicator<std::remove_cvref_t<Comm>>) {
    std::vector<T> all(whole.size());
    pack(all);
    reduce_scatter_v(group, all, part, sizes, sum{}, {}, where);
  } else {
    auto const all = std::make_shared<std::vector<T>>(whole.size());
    pack(*all);
    return reduce_scatter_v(group, *all, part, sizes, sum{}, {}, where).then([all] {});
  }
}

// This rank's part, which it has already.
template <class Comm, class T>
void take_along(Comm const& group, training::sharded_dimension const& along, std::span<T const> whole,
                std::span<T> part, std::source_location where) {
  expect_sharded(along, whole.size(), part.size(), group.size(), group.rank(), where);
  along.copy_part(whole, part, group.size(), group.rank());
}

// The communication whose forward() is the other's backward(), and the reverse.
template <class Communication>
struct conjugate {
  training::sharded_dimension along;

  template <class Comm, std::ranges::contiguous_range In, std::ranges::contiguous_range Out>
  auto forward(Comm&& group, In const& in, Out&& out,
               std::source_location where = std::source_location::current()) const {
    return Communication{along}.backward(group, in, out, where);
  }
  template <class Comm, std::ranges::contiguous_range In, std::ranges::contiguous_range Out>
  auto backward(Comm&& group, In const& in, Out&& out,
                std::source_location where = std::source_location::current()) const {
    return Communication{along}.forward(group, in, out, where);
  }
};

}  // namespace detail

namespace training {

// Tensor parallelism: the ranks of a group divide the matrices of a layer, so each computes a part of what the layer
// computes, and they exchange activations. A layer whose columns are divided needs its whole input and has a part of its output;
// one whose rows are divided needs a part of its input, and its output is the sum over the ranks.
//
// Each of the structs below is one communication on the way from input to output. backward() is the transpose of forward():
// it turns the gradient with respect to what forward() returned into that with respect to what it was given. So if each rank
// multiplies by its part, losses and gradients are those of a single process.
//
//                            forward                       backward
//   copy_to_group            nothing                       all_reduce
//   reduce_from_group        all_reduce                    nothing
//   scatter_to_group         takes this rank's part        all_gather
//   gather_from_group        all_gather                    takes this rank's part
//   gather_sequence          all_gather                    reduce_scatter
//   reduce_scatter_sequence  reduce_scatter                all_gather
//
// The first four keep activations between layers whole, and equal on all ranks. With the last two in place of copy_to_group and
// reduce_from_group, each rank has a part of the sequence between layers: the same bytes travel, and dropout, normalisation and
// their activations are divided as well. Parameters that all ranks have, and apply to parts of the sequence, then have
// gradients which are parts of a sum: all_reduce them over the group. Otherwise they are equal, in all bits.
//
// Each rank passes    arrays of one element type: whole ones, equal where a rank takes its part of them, and parts as
//                     sharded_dimension divides them. tutti::async(group) in place of the group returns work.
// Bits                all ranks get the same. What is gathered or taken is copied; sums have the bits of all_reduce and
//                     reduce_scatter.
// Throws              error: bad_argument if an array has another size, before any communication; and as these collectives
// Cost                one collective; where along.outer is not 1, a copy of the whole array, too
// Source              Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model
//                     Parallelism", 2019; Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
//                     Models", 2022 (sequence parallelism)
//
//   copy_to_group{}.forward(group, input);                 // input x columns: this rank's part of the hidden layer
//   reduce_from_group{}.forward(group, output);            // hidden x rows: the output, once it is summed
//   work whole = copy_to_group{}.backward(tutti::async(group), input_gradient);

struct copy_to_group {
  template <class Comm, std::ranges::contiguous_range Array>
  void forward(Comm const&, Array const&) const {}
  template <class Comm, std::ranges::contiguous_range Array>
  auto backward(Comm&& group, Array&& gradient, std::source_location where = std::source_location::current()) const {
    return detail::sum_in_place<Array>(group, gradient, where);
  }
};

struct reduce_from_group {
  template <class Comm, std::ranges::contiguous_range Array>
  auto forward(Comm&& group, Array&& partial_sum, std::source_location where = std::source_location::current()) const {
    return detail::sum_in_place<Array>(group, partial_sum, where);
  }
  template <class Comm, std::ranges::contiguous_range Array>
  void backward(Comm const&, Array const&) const {}
};

struct scatter_to_group {
  sharded_dimension along;

  template <class Comm, std::ranges::contiguous_range In, std::ranges::contiguous_range Out>
  void forward(Comm const& group, In const& whole, Out&& part,
               std::source_location where = std::source_location::current()) const {
    using T = detail::element_of_array<In>;
    detail::take_along(group, along, std::span<T const>(whole), std::span<T>(part), where);
  }
  template <class Comm, std::ranges::contiguous_range In, std::ranges::contiguous_range Out>
  auto backward(Comm&& group, In const& part, Out&& whole,
                std::source_location where = std::source_location::current()) const {
    using T = detail::element_of_array<In>;
    return detail::gather_along(group, along, std::span<T const>(part), std::span<T>(whole), where);
  }
};

using gather_from_group = detail::conjugate<scatter_to_group>;

struct gather_sequence {
  sharded_dimension along;

  template <class Comm, std::ranges::contiguous_range In, std::ranges::contiguous_range Out>
  auto forward(Comm&& group, In const& part, Out&& whole,
               std::source_location where = std::source_location::current()) const {
    return gather_from_group{along}.forward(group, part, whole, where);
  }
  template <class Comm, std::ranges::contiguous_range In, std::ranges::contiguous_range Out>
  auto backward(Comm&& group, In const& whole, Out&& part,
                std::source_location where = std::source_location::current()) const {
    using T = detail::element_of_array<In>;
    return detail::reduce_scatter_along(group, along, std::span<T const>(whole), std::span<T>(part), where);
  }
};

using reduce_scatter_sequence = detail::conjugate<gather_sequence>;

}  // namespace training
}  // namespace tutti
