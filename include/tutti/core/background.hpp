// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts the background work of this process, which its threads drive while they wait.
#pragma once

#include <atomic>
#include <cstddef>

namespace tutti::detail {

// Set once there may be such work. It does not wait, and may be called from any wait, including one within itself.
inline std::atomic<void (*)() noexcept> background_work{nullptr};

// The number of pending jobs. A thread that waits while there are any polls again soon.
inline std::atomic<std::size_t> background_jobs{0};

// The number of threads that wait for such jobs and drive them meanwhile.
inline std::atomic<std::size_t> background_waiters{0};

// The number of threads that drive such jobs while the program computes.
inline std::atomic<int> background_threads{0};

inline void work_in_background() noexcept {
  if (auto* const work = background_work.load(std::memory_order_acquire)) work();
}

}  // namespace tutti::detail
