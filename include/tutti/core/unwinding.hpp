// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether an object is destroyed because of an exception.
#pragma once

#include <exception>

namespace tutti::detail {

// A member of the object. It sees only exceptions that were thrown during its life: a destructor that runs because of another may
// create objects and destroy them in order.
class unwinding {
 public:
  [[gnu::cold]] bool begun() const noexcept { return std::uncaught_exceptions() > before_; }

 private:
  int before_ = std::uncaught_exceptions();
};

}  // namespace tutti::detail
