// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What gather() of a sharded model returns.
#pragma once

#include <cstddef>

#include "tutti/training/sharded/sharded_parameters.hpp"

namespace tutti::detail {

// Keeps a unit gathered.
template <class T, class Transport>
class gathered_unit {
 public:
  gathered_unit(sharded_parameters<T, Transport>& of, std::size_t unit) : of_(of), unit_(unit) {}
  gathered_unit(gathered_unit const&) = delete;
  gathered_unit& operator=(gathered_unit const&) = delete;
  ~gathered_unit() { of_.release(unit_); }

 private:
  sharded_parameters<T, Transport>& of_;
  std::size_t unit_;
};

}  // namespace tutti::detail
