// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A line for the user about a collective that has waited long for ranks that have not made it. The call goes on: an MPI
// program may keep its ranks waiting as long as it likes.
#pragma once

#include <chrono>
#include <string>
#include <thread>

namespace interpose {

// The blocking call of a thread, for as long as it exists.
class long_wait {
 public:
  using description = std::string (*)(void const* call, int seconds);

  long_wait(description describe, void const* call) : describe_(describe), call_(call) { of_thread = this; }
  long_wait(long_wait const&) = delete;
  long_wait& operator=(long_wait const&) = delete;
  ~long_wait() { of_thread = nullptr; }

  // Called again and again while this thread waits. Prints a line once per job.
  [[gnu::cold]] static void look() noexcept;

 private:
  void notice();

  static inline thread_local long_wait* of_thread = nullptr;
  description describe_;
  void const* call_;
  std::chrono::steady_clock::time_point began_{};  // at the first look
};

// Prints a line if the start of this rank takes that long. A thread looks, because an MPI does not return while it waits.
class long_start {
 public:
  long_start();

 private:
  std::jthread watch_;
};

}  // namespace interpose
