// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An array that peers read in place where that is possible.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <variant>
#include <vector>

#include "tutti/call/communicator.hpp"

namespace tutti::detail {

// Zero-initialised. In memory from comm.allocate, or in ordinary memory if the communicator has too little of that. Moving it
// does not move its elements.
template <class T, class Transport>
class peer_array {
 public:
  peer_array() = default;
  peer_array(communicator<Transport> const& comm, std::size_t elements) {
    try {
      memory_ = comm.template allocate<T>(elements);
    } catch (std::bad_alloc const&) {
      memory_ = std::vector<T>(elements);
    }
  }

  std::span<T> all() {
    return std::visit([](auto& memory) { return std::span<T>(memory); }, memory_);
  }
  std::size_t size() const noexcept {
    return std::visit([](auto const& memory) { return memory.size(); }, memory_);
  }
  std::size_t bytes() const noexcept { return size() * sizeof(T); }

 private:
  std::variant<std::vector<T>, shared_array<T, Transport>> memory_;
};

}  // namespace tutti::detail
