// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays that go from a rank to one other, for rings and grids.
#pragma once

#include <cstddef>
#include <ranges>
#include <vector>

#include <tutti/collective/all_to_all.hpp>

inline constexpr int nobody = -1;

template <class Communicator>
class neighbours {
 public:
  explicit neighbours(Communicator& comm)
      : comm_(comm), sent_(static_cast<std::size_t>(comm.size())), received_(sent_.size()) {}

  // Sends `out` to a rank while `in` comes from one; either may be nobody. All ranks call it: it is an all_to_all_v in
  // which all other blocks are empty, and empty blocks are not sent.
  template <class Out, class In>
  void pass(Out const& out, int to, In&& in, int from) {
    if (to != nobody) sent_[static_cast<std::size_t>(to)] = std::ranges::size(out);
    if (from != nobody) received_[static_cast<std::size_t>(from)] = std::ranges::size(in);
    tutti::all_to_all_v(comm_, out, sent_, in, received_);
    if (to != nobody) sent_[static_cast<std::size_t>(to)] = 0;
    if (from != nobody) received_[static_cast<std::size_t>(from)] = 0;
  }

 private:
  Communicator& comm_;
  std::vector<std::size_t> sent_, received_;  // elements for, and from, each rank; zeros between two calls
};
