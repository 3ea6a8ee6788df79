// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/hooks/power_sgd.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/bucket.hpp"
#include "tutti/training/hooks/low_rank.hpp"
#include "tutti/training/hooks/power_sgd.hpp"
#include "tutti/training/hooks/residual.hpp"

namespace tutti::training {

TUTTI_INLINE power_sgd::power_sgd(power_sgd_options const& options, std::source_location where) : options_(options) {
  if (options.rank == 0) tutti::detail::refuse(-1, "power_sgd_options::rank is 0", "pass at least 1", where);
}

TUTTI_INLINE tutti::detail::low_rank_message power_sgd::message_of(bucket_part<float> const& part) const {
  return tutti::detail::low_rank_message_for(part.gradient.size(), part.shape, options_.rank);
}
TUTTI_INLINE std::size_t power_sgd::message_bytes(bucket<float> const& some) const {
  std::size_t count = 0;
  for (auto const& part : some.parts) count += message_of(part).first + message_of(part).second;
  return count * sizeof(float);
}

// The mean of residuals counts, and what was sent has this mean.
TUTTI_INLINE void power_sgd::take_back(bucket<float> const& unused) {
  for (auto const& part : unused.parts) {
    if (part.parameter >= matrices_.size()) continue;  // a single rank sends nothing
    auto& residual = matrices_[part.parameter].residual;
    for (std::size_t i = 0; i < residual.size(); ++i)
      residual[i] = tutti::detail::finite_or_zero(residual[i] + part.gradient[i]);
  }
}

TUTTI_INLINE void power_sgd::rescale(double by) {
  for (matrix_state& matrix : matrices_) tutti::detail::scale_residual(matrix.residual, by);
}

template <class F>
void power_sgd::for_each_part(bucket<float> const& some, F&& f) {
  std::span<float> first = messages_[some.index].first, second = messages_[some.index].second;
  for (auto const& part : some.parts) {
    auto const numbers = message_of(part);
    f(part, first.first(numbers.first), second.first(numbers.second));
    first = first.subspan(numbers.first), second = second.subspan(numbers.second);
  }
}

TUTTI_INLINE power_sgd::matrix_state& power_sgd::state_of(bucket_part<float> const& part, int rank,
                                                          std::source_location where) {
  matrix_state& out = matrices_[part.parameter];
  std::size_t const elements = part.gradient.size(), numbers = message_of(part).second;
  if (out == matrix_state{}) out = {std::vector<float>(elements), std::vector<float>(numbers)};
  if (out.residual.size() != elements || out.q.size() != numbers)
    tutti::detail::refuse(
        rank,
        tutti::detail::join({"the state of parameter ", part.parameter, " has a residual of ", out.residual.size(),
                             " values and a q of ", out.q.size(), ", not of ", elements, " and ", numbers}),
        "restore the state of the same parameters and the same rank of power_sgd", where);
  return out;
}

TUTTI_INLINE std::span<float> power_sgd::first_message(bucket<float> const& some, int rank) {
  if (messages_.size() <= some.index) messages_.resize(some.index + 1);
  std::size_t first = 0, second = 0;
  for (auto const& part : some.parts) {
    first += message_of(part).first, second += message_of(part).second;
    if (matrices_.size() <= part.parameter) matrices_.resize(part.parameter + 1);
  }
  messages_[some.index].first.resize(first);
  messages_[some.index].second.resize(second);
  for_each_part(some, [&](auto const& part, std::span<float> p, std::span<float> q) {
    if (q.empty()) {
      std::ranges::copy(part.gradient, p.begin());
      return;
    }
    matrix_state& s = state_of(part, rank, some.where);
    for (std::size_t i = 0; i < s.residual.size(); ++i) s.residual[i] += part.gradient[i];
    tutti::detail::orthonormalise(s.q, options_.rank, options_.seed + 2 * part.parameter);
    tutti::detail::multiply(s.residual, {options_.rank, p, s.q});
  });
  return messages_[some.index].first;
}

TUTTI_INLINE std::span<float> power_sgd::second_message(bucket<float> const& some) {
  for_each_part(some, [&](auto const& part, std::span<float> p, std::span<float> q) {
    if (q.empty()) {
      std::ranges::copy(p, part.gradient.begin());
      return;
    }
    auto& residual = matrices_[part.parameter].residual;
    tutti::detail::low_rank const sent{options_.rank, p, q};
    tutti::detail::orthonormalise(p, options_.rank, options_.seed + 2 * part.parameter + 1);
    tutti::detail::multiply_transposed(residual, sent);
    tutti::detail::subtract(residual, sent);
  });
  return messages_[some.index].second;
}

TUTTI_INLINE void power_sgd::write_means(bucket<float> const& some) {
  for_each_part(some, [&](auto const& part, std::span<float> p, std::span<float> q) {
    if (q.empty()) return;
    tutti::detail::expand(part.gradient, {options_.rank, p, q});
    std::ranges::copy(q, matrices_[part.parameter].q.begin());
    tutti::detail::keep_usable(matrices_[part.parameter].q);
  });
}

}  // namespace tutti::training
