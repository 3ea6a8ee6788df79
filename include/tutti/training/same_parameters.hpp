// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks compare the parameters that they are about to train together.
#pragma once

#include <array>
#include <cstddef>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_or_none.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/collective/broadcast.hpp"
#include "tutti/core/error.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/training/parameter.hpp"

namespace tutti {
namespace detail {

// "parameter 3", or "parameter 3 (weights)".
std::string parameter_name(std::size_t index, std::string const& name);
// "64 x 512". Throws bad_argument if it has another number of elements than `values`.
std::string parameter_shape(std::size_t values, std::span<std::size_t const> shape, std::string const& name, int rank,
                            std::source_location where);

// f(parameter, index) of each.
template <class T, class F>
auto of_each(std::span<training::parameter<T> const> all, F&& f) {
  std::vector<decltype(f(all[0], 0))> out;
  for (auto const& p : all) out.push_back(f(p, out.size()));
  return out;
}

// At least one extent for each.
template <class T>
auto parameter_shapes(std::vector<training::parameter<T>> const& all) {
  return of_each<T>(
      all, [](auto const& p, std::size_t) { return p.shape.empty() ? std::vector{p.values.size()} : p.shape; });
}
template <class T>
auto parameter_names(std::vector<training::parameter<T>> const& all) {
  return of_each<T>(all, [](auto const& p, std::size_t i) { return parameter_name(i, p.name); });
}
template <class T>
auto parameter_counts(std::vector<training::parameter<T>> const& all) {
  return of_each<T>(all, [](auto const& p, std::size_t) { return p.values.size(); });
}

// A line of text for each parameter.
template <class T>
auto lines_about(std::span<training::parameter<T> const> all, int rank, std::source_location where) {
  return of_each<T>(all, [&](auto const& p, std::size_t i) {
    std::string const name = parameter_name(i, p.name);
    return name + " of shape " + parameter_shape(p.values.size(), p.shape, name, rank, where);
  });
}

// Throws bad_argument if two of these arrays share memory, as weights do that two layers have in common.
void expect_apart(std::span<std::span<std::byte const> const> arrays, std::span<std::string const> names, int rank,
                  std::source_location where);
template <class T>
void expect_apart(std::vector<training::parameter<T>> const& all, int rank, std::source_location where) {
  std::vector<std::span<std::byte const>> arrays;
  for (auto const& p : all) arrays.push_back(std::as_bytes(p.values));
  expect_apart(arrays, parameter_names(all), rank, where);
}

// All lines as one string, which can be compared and sent; and, as a sentence, the first one that differs from it.
std::string one_text(std::span<std::string const> lines);
std::string first_difference(std::span<std::string const> mine, std::string const& of_rank_0, int rank);

// The way out where the lines are about options and parameters.
inline constexpr std::string_view same_model_and_options =
    "pass the same options on every rank, and list the same parameters in the same order";

// Collective. Throws the same error on all ranks, mismatch, if one of them has other lines than rank 0.
template <class Transport>
void expect_same_lines(
    communicator<Transport>& comm, std::span<std::string const> mine, std::source_location where,
    std::string_view way_out = "make the same model on every rank, and list its parameters in the same order") {
  std::string const text = one_text(mine), of_rank_0 = broadcast_list(comm, text, 0, where);
  int const nobody = comm.size();
  std::array first{text == of_rank_0 ? nobody : comm.rank()};
  all_reduce(comm, first, min{}, {}, where);
  if (first[0] == nobody) return;
  std::string const what = broadcast_list(
      comm, comm.rank() == first[0] ? first_difference(mine, of_rank_0, comm.rank()) : std::string(), first[0], where);
  throw error({.code = error_code::mismatch,
               .rank = comm.rank(),
               .peer = first[0],
               .what = what,
               .way_out = std::string(way_out),
               .where = where});
}

}  // namespace detail

namespace training {

// Gives all ranks the root's values of these parameters, or of other state such as running averages: a list of
// parameters, or of arrays. Collective.
// Throws error: mismatch, which names the rank and the array, if ranks have arrays of different shapes.
//
//   std::vector<std::span<float>> const layers{first, second};
//   tutti::training::broadcast_parameters(comm, layers);
template <transport Transport, detail::parameter_list List>
void broadcast_parameters(communicator<Transport>& comm, List&& list, int root = 0,
                          std::source_location where = std::source_location::current()) {
  auto const parameters = detail::parameters_of(list);
  detail::expect_same_lines(comm, detail::lines_about(std::span(parameters), comm.rank(), where), where);
  for (auto const& p : parameters) broadcast(comm, p.values, root, {}, where);
}

}  // namespace training
}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/training/same_parameters_impl.hpp"
#endif
