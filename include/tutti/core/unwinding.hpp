// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether an object is destroyed because of an exception.
#pragma once

#include <exception>

namespace tutti::detail {

// A member of the object. It ignores exceptions that were in flight already when it was made: a destructor that runs because of one may
// create such objects and destroy them as usual.
class unwinding {
 public:
  [[gnu::cold]] bool begun() const noexcept { return std::uncaught_exceptions() > before_; }

 private:
  int before_ = std::uncaught_exceptions();
};

}  // namespace tutti::detail
