// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads that end with their owner. libc++ before version 20 has no std::jthread, unless it is compiled with
// -fexperimental-library.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace tutti::detail {

// Its destructor waits for its end.
class joined_thread {
 public:
  template <class Work>
  explicit joined_thread(Work work) : thread_(std::move(work)) {}
  joined_thread(joined_thread&&) = default;
  joined_thread& operator=(joined_thread&&) = delete;
  ~joined_thread() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

// A thread that looks from time to time, until its owner ends it.
class stoppable_thread {
 public:
  stoppable_thread() = default;
  stoppable_thread(stoppable_thread const&) = delete;
  stoppable_thread& operator=(stoppable_thread const&) = delete;
  ~stoppable_thread() { end(); }

  template <class Work>
  void start(Work work) {
    ends_ = false;
    thread_ = std::thread(std::move(work));
  }
  bool runs() const { return thread_.joinable(); }
  // Waits until the work has ended.
  void end() {
    if (!runs()) return;
    {
      std::lock_guard const lock(guard_);
      ends_ = true;
    }
    ending_.notify_all();
    thread_.join();
  }

  // Called by the work. Returns at once, and false, when it is to end.
  bool rest(std::chrono::nanoseconds time) {
    std::unique_lock lock(guard_);
    return !ending_.wait_for(lock, time, [&] { return ends_; });
  }

 private:
  std::mutex guard_;
  std::condition_variable ending_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace tutti::detail
