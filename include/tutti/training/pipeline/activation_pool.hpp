// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Buffers of activations and their gradients, which are used again from batch to batch.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/training/peer_array.hpp"

namespace tutti::detail {

// Keeps the buffers that are not in use, by their size.
template <class T, class Transport>
class activation_pool {
 public:
  using buffer = peer_array<T, Transport>;

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
    if (std::size_t const elements = used.size(); elements > 0) idle_[elements].push_back(std::move(used));
  }

 private:
  communicator<Transport> const& comm_;
  std::map<std::size_t, std::vector<buffer>> idle_;
};

}  // namespace tutti::detail
