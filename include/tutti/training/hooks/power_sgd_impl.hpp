// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/hooks/power_sgd.hpp.
#pragma once

#include <algorithm>
#include <cmath>
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

namespace tutti::training {

TUTTI_INLINE power_sgd::power_sgd(power_sgd_options const& options, std::source_location where) : options_(options) {
  if (options.rank == 0) tutti::detail::refuse(-1, "power_sgd_options::rank is 0", "pass at least 1", where);
}

TUTTI_INLINE std::size_t power_sgd::second_count(bucket_part<float> const& part) const {
  std::size_t const elements = part.gradient.size();
  if (part.shape.size() < 2 || options_.rank >= elements) return 0;
  std::size_t const rows = part.shape.front(), columns = elements / rows;
  return options_.rank * (rows + columns) < elements ? options_.rank * columns : 0;
}
TUTTI_INLINE std::size_t power_sgd::first_count(bucket_part<float> const& part) const {
  return second_count(part) == 0 ? part.gradient.size() : options_.rank * part.shape.front();
}
TUTTI_INLINE std::size_t power_sgd::message_bytes(bucket<float> const& some) const {
  std::size_t count = 0;
  for (auto const& part : some.parts) count += first_count(part) + second_count(part);
  return count * sizeof(float);
}

// The mean of residuals counts, and what was sent has this mean.
TUTTI_INLINE void power_sgd::take_back(bucket<float> const& unused) {
  for (auto const& part : unused.parts) {
    if (part.parameter >= matrices_.size()) continue;  // a single rank sends nothing
    auto& residual = matrices_[part.parameter].residual;
    for (std::size_t i = 0; i < residual.size(); ++i) residual[i] += part.gradient[i];
  }
}

template <class F>
void power_sgd::for_each_part(bucket<float> const& some, F&& f) {
  std::span<float> first = messages_[some.index].first, second = messages_[some.index].second;
  for (auto const& part : some.parts) {
    std::size_t const in_first = first_count(part), in_second = second_count(part);
    f(part, first.first(in_first), second.first(in_second));
    first = first.subspan(in_first), second = second.subspan(in_second);
  }
}

TUTTI_INLINE power_sgd::matrix_state& power_sgd::state_of(bucket_part<float> const& part, int rank) {
  matrix_state& out = matrices_[part.parameter];
  std::size_t const elements = part.gradient.size(), numbers = second_count(part);
  if (out == matrix_state{}) out = {std::vector<float>(elements), std::vector<float>(numbers)};
  if (out.residual.size() != elements || out.q.size() != numbers)
    tutti::detail::refuse(
        rank,
        tutti::detail::join({"the state of parameter ", part.parameter, " has a residual of ", out.residual.size(),
                             " values and a q of ", out.q.size(), ", not of ", elements, " and ", numbers}),
        "restore the state of the same parameters and the same rank of power_sgd", {});
  return out;
}

TUTTI_INLINE std::span<float> power_sgd::first_message(bucket<float> const& some, int rank) {
  if (messages_.size() <= some.index) messages_.resize(some.index + 1);
  std::size_t first = 0, second = 0;
  for (auto const& part : some.parts) {
    first += first_count(part), second += second_count(part);
    if (matrices_.size() <= part.parameter) matrices_.resize(part.parameter + 1);
  }
  messages_[some.index].first.resize(first);
  messages_[some.index].second.resize(second);
  for_each_part(some, [&](auto const& part, std::span<float> p, std::span<float> q) {
    if (q.empty()) {
      std::ranges::copy(part.gradient, p.begin());
      return;
    }
    matrix_state& s = state_of(part, rank);
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
    // What is no number would remain so in all steps to come; zeros are replaced.
    bool const usable = std::ranges::all_of(q, [](float x) { return std::isfinite(x); });
    std::ranges::transform(q, matrices_[part.parameter].q.begin(), [=](float x) { return usable ? x : 0; });
  });
}

}  // namespace tutti::training
