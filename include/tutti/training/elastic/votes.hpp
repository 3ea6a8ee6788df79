// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The votes of elastic training.
#pragma once

#include <cstdint>

#include "tutti/call/communicator.hpp"

namespace tutti::detail {

// Ranks may find out about a loss in different steps, or not at all, so whatever changes the group, or ends the run, begins with
// a vote, of which all have the same result.
enum class outcome { agreed, refused, lost };

// What a rank says.
struct opinion {
  bool agrees = false;      // to what it was about to do
  bool intact = false;      // it knows of no loss
  bool takes_back = false;  // if nobody turns out to be lost, it goes on, and does not give up
};
struct decision {
  outcome what = outcome::lost;
  bool takes_back = false;  // all ranks do that have voted
};

// As the flags of communicator::agree, and what the flags of all say. Bit 0 is that of grow_options::flags.
inline int flags_of(opinion mine) { return (mine.agrees ? 1 : 0) | (mine.intact ? 2 : 0) | (mine.takes_back ? 4 : 0); }
inline decision decision_of(agreement const& all) {
  bool const takes_back = (all.flags & 4) != 0;
  if ((all.flags & 2) == 0 || !all.gone.empty()) return {outcome::lost, takes_back};
  return {(all.flags & 1) != 0 ? outcome::agreed : outcome::refused, takes_back};
}

// How often ranks were late in one step, and yet none was lost.
class setbacks {
 public:
  bool may_have_another() const { return count_ < 3; }
  void note_end_of(std::uint64_t step) {
    if (step <= furthest_) return;
    furthest_ = step;
    count_ = 0;
  }
  void note_shrink(bool all_live) { count_ = all_live ? count_ + 1 : 0; }

 private:
  std::uint64_t furthest_ = 0;  // the last step that all ranks have completed
  int count_ = 0;
};

}  // namespace tutti::detail
