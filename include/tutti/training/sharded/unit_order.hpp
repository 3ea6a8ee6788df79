// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which units of parameters a program will need next.
#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace tutti::detail {

// Learns from the steps so far which unit followed which two. Two, because a backward pass takes the units of the forward
// pass in the opposite order. All ranks gather the same units in the same order, so they expect the same ones.
class unit_order {
 public:
  void note(std::size_t unit);
  // The next units, as far as they are known, at most so many.
  std::vector<std::size_t> expected(std::size_t most) const;
  // A step ends. What comes next has no connection with it.
  void restart() { last_ = {nothing, nothing}; }

 private:
  static constexpr std::size_t nothing = std::numeric_limits<std::size_t>::max();

  std::pair<std::size_t, std::size_t> last_{nothing, nothing};
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> next_;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/sharded/unit_order_impl.hpp"
#endif
