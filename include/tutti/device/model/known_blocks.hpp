// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many blocks of a kernel a device can run at once. The answer never changes, so it is computed once.
#pragma once

#include <map>
#include <mutex>
#include <tuple>

#include "tutti/core/function_ref.hpp"

namespace tutti::detail {

// Any thread may use it.
class known_blocks {
 public:
  // The number for blocks of so many threads. The first call for these arguments calls compute(), which may throw; the next
  // call then tries again. Calls from other threads wait meanwhile.
  int find(void const* kernel, int device, int threads, function_ref<int()> compute) {
    std::lock_guard const lock(guard_);
    std::tuple const key(kernel, device, threads);
    auto at = known_.find(key);
    if (at == known_.end()) at = known_.emplace(key, compute()).first;
    return at->second;
  }

 private:
  std::mutex guard_;
  std::map<std::tuple<void const*, int, int>, int> known_;
};

}  // namespace tutti::detail
