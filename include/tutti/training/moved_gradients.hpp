// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where gradients were before the buckets were built anew.
#pragma once

#include <cstddef>
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

// The old array is kept for one step. Its means can still be read, and a gradient that is still written there is noticed.
template <class T, class Transport>
class moved_gradients {
 public:
  moved_gradients() = default;
  explicit moved_gradients(gradient_array<T, Transport> before) : before_(std::move(before)) {
    for (std::size_t i = 0; i < before_.size(); ++i) hashes_.push_back(hash_of(before_.of_parameter(i)));
  }

  std::span<T> of_parameter(std::size_t parameter) { return before_.of_parameter(parameter); }

  // Throws bad_argument if this gradient has changed.
  void expect_unchanged(std::size_t parameter, int rank, std::source_location where) {
    if (parameter >= before_.size() || hash_of(before_.of_parameter(parameter)) == hashes_[parameter]) return;
    refuse(rank,
           join({"the gradient of parameter ", parameter,
                 " was written to where it was in the last step, but it has moved"}),
           "call gradient() in every step, or set rebuild = false", where);
  }

 private:
  static std::size_t hash_of(std::span<T const> gradient) {
    return std::hash<std::string_view>()({reinterpret_cast<char const*>(gradient.data()), gradient.size_bytes()});
  }

  gradient_array<T, Transport> before_;
  std::vector<std::size_t> hashes_;  // of each parameter
};

}  // namespace tutti::detail
