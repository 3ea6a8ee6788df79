// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A flag that is set for a while.
#pragma once

#include <utility>

namespace tutti::detail {

// Sets a flag, and in the end gives it back the value that it had.
class [[nodiscard]] restored_flag {
 public:
  explicit restored_flag(bool& flag) noexcept : flag_(flag), before_(std::exchange(flag, true)) {}
  restored_flag(restored_flag const&) = delete;
  restored_flag& operator=(restored_flag const&) = delete;
  ~restored_flag() { flag_ = before_; }

 private:
  bool& flag_;
  bool before_;
};

}  // namespace tutti::detail
