// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The calls that ranks have recorded on their board: compares them, and describes them in messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/device/watch/board.hpp"

namespace tutti::detail {

// As rank `rank` sees them.
class recorded_calls {
 public:
  recorded_calls(device_board const& board, int rank) : board_{board}, rank_{rank} {}

  std::string described(int q, std::uint32_t call) const;
  // "in all_reduce of ..." or "after broadcast of ..."
  std::string state_of(int q) const;
  fault mismatch_with(int q, std::uint32_t own, std::uint32_t theirs) const;
  // Whether two ranks make the same call in all that they must agree on; empty if that is no longer known.
  std::optional<bool> same_call(std::uint32_t own, int q, std::uint32_t theirs) const;

 private:
  device_board board_;
  int rank_;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/device/watch/calls_impl.hpp"
#endif
