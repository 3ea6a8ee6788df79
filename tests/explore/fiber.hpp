// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function with a stack of its own, which runs until it suspends itself. What has not ended may be abandoned.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace tutti::testing::explore {

class fiber {
 public:
  // Abandons what ran here before. Destructors of its objects do not run.
  void start(std::function<void()> body);

  // Runs the body until it suspends itself or ends; called from outside.
  void resume();
  // Called by the body.
  void suspend();

  bool ended() const { return ended_; }

 private:
  static constexpr std::size_t stack_bytes = 256 * 1024;

  static void enter(unsigned high, unsigned low);

  std::unique_ptr<std::byte[]> stack_ = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
  std::function<void()> body_;
  ucontext_t inside_{}, outside_{};
  bool ended_ = true;
};

}  // namespace tutti::testing::explore
