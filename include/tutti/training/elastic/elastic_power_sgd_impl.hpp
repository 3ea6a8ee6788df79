// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/elastic/elastic_power_sgd.hpp.
#pragma once

#include "tutti/call/refuse.hpp"
#include "tutti/core/config.hpp"
#include "tutti/training/elastic/elastic_power_sgd.hpp"
#include "tutti/training/hooks/low_rank.hpp"
#include "tutti/training/parameter.hpp"

namespace tutti::detail {

TUTTI_INLINE std::size_t elements_of_shapes(std::vector<std::vector<std::size_t>> const& shapes) {
  std::size_t out = 0;
  for (auto const& shape : shapes) out += elements_of_shape(shape);
  return out;
}

}  // namespace tutti::detail

namespace tutti::training {

TUTTI_INLINE elastic_power_sgd::elastic_power_sgd(std::size_t shards,
                                                  std::vector<std::vector<std::size_t>> const& shapes,
                                                  power_sgd_options const& options, std::source_location where)
    : options_(options), residuals_(shards, tutti::detail::elements_of_shapes(shapes), where) {
  if (options.rank == 0) tutti::detail::refuse(-1, "power_sgd_options::rank is 0", "pass at least 1", where);
  std::size_t begin = 0, in_first = 0, in_second = 0;
  for (auto const& shape : shapes) {
    auto const one = tutti::detail::low_rank_message_for(tutti::detail::elements_of_shape(shape), shape, options.rank);
    matrices_.push_back({one, begin, in_first, in_second});
    begin += one.elements, in_first += one.first, in_second += one.second;
  }
  first_.resize(in_first);
  factors_.resize(in_second);
}

TUTTI_INLINE void elastic_power_sgd::begin_first() {
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    matrix const& m = matrices_[i];
    tutti::detail::orthonormalise(std::span(factors_).subspan(m.in_second, m.second), options_.rank,
                                  options_.seed + 2 * i);
  }
  sums_.assign(first_.size(), {});
}

TUTTI_INLINE void elastic_power_sgd::add_first(std::size_t k, std::span<float const> gradient) {
  one_.resize(first_.size());
  for (matrix const& m : matrices_) {
    auto const from = gradient.subspan(m.begin, m.elements);
    auto const to = std::span(one_).subspan(m.in_first, m.first);
    if (m.second == 0) {
      std::ranges::copy(from, to.begin());
      continue;
    }
    auto const residual = residuals_.of(k).subspan(m.begin, m.elements);
    for (std::size_t i = 0; i < from.size(); ++i) residual[i] += from[i];
    tutti::detail::multiply(residual, {options_.rank, to, std::span(factors_).subspan(m.in_second, m.second)});
  }
  add_to_sums();
}

TUTTI_INLINE void elastic_power_sgd::begin_second() {
  take_sums(first_);
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    matrix const& m = matrices_[i];
    if (m.second > 0)
      tutti::detail::orthonormalise(std::span(first_).subspan(m.in_first, m.first), options_.rank,
                                    options_.seed + 2 * i + 1);
  }
  sums_.assign(factors_.size(), {});
}

TUTTI_INLINE void elastic_power_sgd::add_second(std::size_t k) {
  one_.resize(factors_.size());
  for (matrix const& m : matrices_) {
    if (m.second == 0) continue;
    auto const residual = residuals_.of(k).subspan(m.begin, m.elements);
    tutti::detail::low_rank const sent{options_.rank, std::span(first_).subspan(m.in_first, m.first),
                                       std::span(one_).subspan(m.in_second, m.second)};
    tutti::detail::multiply_transposed(residual, sent);
    tutti::detail::subtract(residual, sent);
  }
  add_to_sums();
}

TUTTI_INLINE void elastic_power_sgd::write_means(std::span<float> out) {
  take_sums(factors_);
  for (matrix const& m : matrices_) {
    auto const to = out.subspan(m.begin, m.elements);
    auto const p = std::span(first_).subspan(m.in_first, m.first);
    if (m.second == 0) {
      std::ranges::copy(p, to.begin());
      continue;
    }
    auto const q = std::span(factors_).subspan(m.in_second, m.second);
    tutti::detail::expand(to, {options_.rank, p, q});
    tutti::detail::keep_usable(q);
  }
}

TUTTI_INLINE void elastic_power_sgd::add_to_sums() {
  for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += one_[i];
}

TUTTI_INLINE void elastic_power_sgd::take_sums(std::span<float> out) const {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = sums_[i].value() / static_cast<float>(residuals_.shards());
}

}  // namespace tutti::training
