// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of fiber.hpp.
#include "explore/fiber.hpp"

#include <cstdint>
#include <utility>

namespace tutti::testing::explore {

void fiber::start(std::function<void()> body) {
  body_ = std::move(body);
  ended_ = false;
  ::getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_.get();
  inside_.uc_stack.ss_size = stack_bytes;
  inside_.uc_link = &outside_;
  auto const self = reinterpret_cast<std::uintptr_t>(this);  // makecontext passes only integers
  ::makecontext(&inside_, reinterpret_cast<void (*)()>(&fiber::enter), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
}

void fiber::enter(unsigned high, unsigned low) {
  fiber& self = *reinterpret_cast<fiber*>(std::uintptr_t{high} << 32 | low);
  self.body_();
  self.ended_ = true;
}

void fiber::resume() { ::swapcontext(&outside_, &inside_); }

void fiber::suspend() { ::swapcontext(&inside_, &outside_); }

}  // namespace tutti::testing::explore
