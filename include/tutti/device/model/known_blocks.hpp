// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many blocks of a kernel a device can run at once. To ask CUDA takes microseconds, so the answers are kept.
#pragma once

#include <map>
#include <mutex>
#include <tuple>

#include "tutti/core/function_ref.hpp"

namespace tutti::detail {

// Any thread may use it.
class known_blocks {
 public:
  // The number for blocks of so many threads. If it is not known, calls compute(), which may throw; the next call then tries again.
  // No lock is held meanwhile: compute() may load the kernel, for which it may wait until another thread has launched one on another
  // device. Threads that ask at the same time may each compute it.
  int find(void const* kernel, int device, int threads, function_ref<int()> compute) {
    std::tuple const key(kernel, device, threads);
    {
      std::lock_guard const lock(guard_);
      if (auto const at = known_.find(key); at != known_.end()) return at->second;
    }
    int const blocks = compute();
    std::lock_guard const lock(guard_);
    return known_.emplace(key, blocks).first->second;
  }

 private:
  std::mutex guard_;
  std::map<std::tuple<void const*, int, int>, int> known_;
};

}  // namespace tutti::detail
