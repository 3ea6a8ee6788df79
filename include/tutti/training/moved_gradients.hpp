// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where gradients were before the buckets were built anew.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/gradient_array.hpp"

namespace tutti::detail {

// The old array is kept until each gradient was reported in a step since, or for 16 steps, because some are never used. Its means can
// still be read, and a gradient that is still written there is noticed, unless it has the same bits.
template <class T, class Transport>
class moved_gradients {
 public:
  moved_gradients() = default;
  explicit moved_gradients(gradient_array<T, Transport> before)
      : before_(std::move(before)), unreported_(before_.size()), seen_(before_.size(), reported::never) {
    for (std::size_t i = 0; i < before_.size(); ++i) hashes_.push_back(hash_of(before_.of_parameter(i)));
  }

  std::span<T> of_parameter(std::size_t parameter) { return before_.of_parameter(parameter); }

  // A gradient is reported. Throws bad_argument if it has changed here.
  void expect_unchanged(std::size_t parameter, int rank, std::source_location where) {
    if (parameter >= seen_.size() || seen_[parameter] == reported::earlier) return;
    if (hash_of(before_.of_parameter(parameter)) != hashes_[parameter])
      refuse(rank,
             join({"the gradient of parameter ", parameter,
                   " was written to where it was in the first step, but it has moved"}),
             "call gradient() in every step, or set rebuild = false", where);
    seen_[parameter] = reported::in_this_step;
  }
  // Sets to zero what has not been reported since.
  void zero() {
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      if (seen_[i] == reported::earlier) continue;
      std::ranges::fill(before_.of_parameter(i), T{});
      hashes_[i] = hash_of(before_.of_parameter(i));
    }
  }
  void end_step() {
    for (reported& one : seen_)
      if (std::exchange(one, one == reported::never ? one : reported::earlier) == reported::in_this_step) --unreported_;
    if (unreported_ == 0 || --steps_left_ == 0) *this = {};
  }

 private:
  enum class reported : std::uint8_t { never, in_this_step, earlier };

  static std::size_t hash_of(std::span<T const> gradient) {
    return std::hash<std::string_view>()({reinterpret_cast<char const*>(gradient.data()), gradient.size_bytes()});
  }

  gradient_array<T, Transport> before_;
  std::vector<std::size_t> hashes_;  // of each parameter
  std::size_t unreported_ = 0;
  int steps_left_ = 16;
  std::vector<reported> seen_;  // whether each was reported since it moved
};

}  // namespace tutti::detail
