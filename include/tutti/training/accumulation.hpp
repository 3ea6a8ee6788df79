// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What accumulate() returns.
#pragma once

#include <source_location>

#include "tutti/training/backward_pass.hpp"

namespace tutti::training {

// While it exists, the gradients of backward passes stay on their rank.
class accumulation {
 public:
  explicit accumulation(tutti::detail::backward_pass& pass, std::source_location where) : pass_(pass) {
    pass_.begin_accumulation(where);
  }
  accumulation(accumulation const&) = delete;
  accumulation& operator=(accumulation const&) = delete;
  ~accumulation() { pass_.end_accumulation(); }

 private:
  tutti::detail::backward_pass& pass_;
};

}  // namespace tutti::training
