// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Buffers of activations and their gradients, which are used again from batch to batch.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"

namespace tutti::detail {

// A buffer of fixed size, or none. Peers read it in place if the communicator has enough of such memory.
template <class T, class Transport>
class activation_buffer {
 public:
  activation_buffer() = default;
  activation_buffer(communicator<Transport> const& comm, std::size_t elements) : memory_(new memory) {
    try {
      memory_->shared.emplace(comm.template allocate<T>(elements));
    } catch (std::bad_alloc const&) {
      memory_->own.resize(elements);
    }
  }

  std::span<T> values() {
    if (!memory_) return {};
    return memory_->shared ? std::span<T>(*memory_->shared) : std::span<T>(memory_->own);
  }

 private:
  struct memory {
    std::optional<shared_array<T, Transport>> shared{};
    std::vector<T> own{};
  };

  std::unique_ptr<memory> memory_;
};

// Keeps the buffers that are not in use, by their size.
template <class T, class Transport>
class activation_pool {
 public:
  using buffer = activation_buffer<T, Transport>;

  explicit activation_pool(communicator<Transport> const& comm) : comm_(comm) {}

  buffer take(std::size_t elements) {
    if (elements == 0) return {};
    auto& idle = idle_[elements];
    if (idle.empty()) return buffer(comm_, elements);
    buffer out = std::move(idle.back());
    idle.pop_back();
    return out;
  }
  void give(buffer&& used) {
    if (std::size_t const elements = used.values().size(); elements > 0) idle_[elements].push_back(std::move(used));
  }

 private:
  communicator<Transport> const& comm_;
  std::map<std::size_t, std::vector<buffer>> idle_;
};

}  // namespace tutti::detail
