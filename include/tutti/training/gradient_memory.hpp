// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory of gradients.
#pragma once

#include <cstddef>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "tutti/call/communicator.hpp"

namespace tutti::detail {

// An array of zeros that peers read in place, if the communicator has enough of such memory, else one of this process.
template <class T, class Transport>
class gradient_memory {
 public:
  gradient_memory() = default;
  gradient_memory(communicator<Transport> const& comm, std::size_t count) {
    try {
      shared_.emplace(comm.template allocate<T>(count));
    } catch (std::bad_alloc const&) {
      own_.resize(count);
    }
  }

  std::span<T> all() { return shared_ ? std::span<T>(*shared_) : std::span<T>(own_); }

 private:
  std::optional<shared_array<T, Transport>> shared_;
  std::vector<T> own_;
};

}  // namespace tutti::detail
