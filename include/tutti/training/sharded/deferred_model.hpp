// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parameters that get their values when a model is divided among ranks, none of which need hold all of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/training/parameter.hpp"
#include "tutti/training/same_parameters.hpp"
#include "tutti/training/sharded/master.hpp"

namespace tutti {
namespace training {

// A parameter without values. A scalar has no extents.
struct deferred_parameter {
  std::vector<std::size_t> shape;
  std::string name{};
};

// A model that may be larger than the memory of one rank. On rank 0, sharded_data_parallel calls fill(parameter, values) once for
// each parameter, in the order of the list, so one random engine may draw them all. In stage 3, only one unit is in memory at a
// time: it is divided among the ranks before the next one is filled. `values` are zero when fill is called; without fill, all
// parameters are zero.
//
//   tutti::training::deferred_model<float> const deferred{
//       .parameters = {{{64, 512}, "weights"}, {{64}, "offsets"}},
//       .fill = [&](std::size_t parameter, std::span<float> values) { read(file, parameter, values); }};
template <shardable T>
struct deferred_model {
  std::vector<deferred_parameter> parameters;
  std::function<void(std::size_t parameter, std::span<T> values)> fill{};
};

}  // namespace training

namespace detail {

// What is known of parameters before they have values: their elements, and, as errors quote them, their names, and lines with names
// and shapes.
struct model_outline {
  std::vector<std::size_t> counts{};
  std::vector<std::string> names{}, lines{};
};
// Throws bad_argument if the elements of the model cannot be counted.
model_outline outline_of(std::span<training::deferred_parameter const> all, int rank, std::source_location where);

// The outline of a model, and what writes its values. It must not outlive what it was made of.
template <class T>
struct model_source {
  model_outline outline;
  std::function<void(std::size_t parameter, std::span<T> values)> fill;
};
// Throws bad_argument if arrays share memory: shards are copies, so what was shared would no longer be.
template <class T>
model_source<T> source_of(std::vector<training::parameter<T>> all, int rank, std::source_location where) {
  expect_apart(all, rank, where);
  model_outline outline{parameter_counts(all), parameter_names(all),
                        lines_about(std::span(std::as_const(all)), rank, where)};
  return {std::move(outline), [all = std::move(all)](std::size_t parameter, std::span<T> values) {
            std::ranges::copy(all[parameter].values, values.begin());
          }};
}
template <class T>
model_source<T> source_of(training::deferred_model<T> const& model, int rank, std::source_location where) {
  return {outline_of(model.parameters, rank, where), [&model](std::size_t parameter, std::span<T> values) {
            if (model.fill) model.fill(parameter, values);
          }};
}

}  // namespace detail
}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/training/sharded/deferred_model_impl.hpp"
#endif
