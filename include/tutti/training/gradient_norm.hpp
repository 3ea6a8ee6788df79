// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The norm of all gradients of a model, of which each rank may hold only a part.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <source_location>
#include <span>
#include <string_view>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/core/text.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/training/sum_of_squares.hpp"

namespace tutti::detail {

// Of those gradients for which counts(i) is true.
template <class Model, class Counts>
double squares_of_gradients(Model& model, Counts const& counts) {
  double out = 0;
  for (std::size_t i = 0; i < model.size(); ++i) {
    if (!counts(i)) continue;
    std::span const gradient = model.gradient(i);
    out += sum_of_squares(std::span<typename decltype(gradient)::value_type const>(gradient));
  }
  return out;
}

// Throws bad_argument if the model can tell that its gradients are not means yet.
template <class Model>
void expect_means(Model& model, std::string_view call, std::source_location where, int rank = -1) {
  if constexpr (requires { model.in_pass(); })
    if (model.in_pass())
      refuse(rank, join({call, " was called before finish(), so some gradients may not be means yet"}),
             "call finish() first", where);
}

// A model that computes the norm itself, because its ranks do not all hold the same means.
template <class Model>
concept has_norm = requires(Model& model) { model.gradient_norm(); };

}  // namespace tutti::detail

namespace tutti::training {

// The Euclidean norm of the gradients of a data_parallel (or anything else with size() and gradient(i)) after finish(). Squares are
// added in double. No rank communicates, and all get the same bits, because all hold the same means. Of a
// sharded_data_parallel, whose ranks hold only parts of them, it is model.gradient_norm(), which is collective. Throws error:
// bad_argument before finish().
//
//   model.finish();
//   descent.step(model, std::min(1.0, 5.0 / (gradient_norm(model) + 1e-6)));  // their norm is 5 at most
template <class Model>
[[nodiscard]] double gradient_norm(Model& model, std::source_location where = std::source_location::current()) {
  tutti::detail::expect_means(model, "gradient_norm()", where);
  if constexpr (tutti::detail::has_norm<Model>) return model.gradient_norm(where);
  else return std::sqrt(tutti::detail::squares_of_gradients(model, [](std::size_t) { return true; }));
}

// The same where the ranks of a group hold parts of one model, as on the tensor and pipeline axes of a mesh. Collective. Of a
// parameter that several of them hold as a whole, only one rank may count the gradient: counts(i) tells whether this one does.
//
//   auto& rest = mesh.along({"tensor", "pipeline"});
//   double const norm = gradient_norm(model, rest, [&](std::size_t i) { return divided[i] || mesh.coordinate("tensor") == 0; });
template <class Model, transport Transport, std::predicate<std::size_t> Counts>
[[nodiscard]] double gradient_norm(Model& model, communicator<Transport>& group, Counts&& counts,
                                   std::source_location where = std::source_location::current()) {
  tutti::detail::expect_means(model, "gradient_norm()", where);
  if constexpr (tutti::detail::has_norm<Model>) return model.gradient_norm(group, counts, where);
  else return std::sqrt(all_reduce(group, tutti::detail::squares_of_gradients(model, counts), sum{}, {}, where));
}

}  // namespace tutti::training
