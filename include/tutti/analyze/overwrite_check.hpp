// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rejects a step that overwrites data that it has yet to send.
#pragma once

#include <cstddef>
#include <vector>

#include "tutti/algorithm/cursor.hpp"
#include "tutti/analyze/step_check.hpp"
#include "tutti/analyze/symbolic_memory.hpp"

namespace tutti::analyze {

class overwrite_check {
 public:
  explicit overwrite_check(symbolic_memory const& memory) : memory_(memory), sent_in_(memory.cells()) {}

  // For the step that a cursor begins. While slice s is received, only the slices up to s are known to have been sent.
  template <class Walk>
  void operator()(Walk const& w, tutti::detail::cursor const& c) {
    step const& t = c.now;
    if (t.to.empty() || t.forwards() || t.from.empty() || t.keep.where == space::none || c.end - c.sent < 2) return;
    ++step_;
    for (std::size_t s = 0; s < c.end; ++s)
      for (int k = 0; k < (t.give.split ? t.to.count : 1); ++k) {
        memory_.find(places_, c.me, t.give, k, w.slice(c.me.lane, t.give, k, s).range, "reads ");
        for (place const& p : places_) sent_in_[static_cast<std::size_t>(p.cell)] = {step_, s};
      }
    for (std::size_t s = 0; s < c.end; ++s)
      for (int k = 0; k < (t.keep.split ? t.from.count : 1); ++k) {
        extent const range = w.slice(c.me.lane, t.keep, k, s).range;
        memory_.find(places_, c.me, t.keep, k, range);
        if (t.keep.split && w.peer(t.from, k) == c.me.rank) {
          memory_.find(own_, c.me, t.own, 0, range, "reads ");
          if (same_cells(own_, places_)) continue;
        }
        for (place const& p : places_)
          if (last const& sent = sent_in_[static_cast<std::size_t>(p.cell)]; sent.step == step_ && sent.slice > s)
            throw flaw{"overwrites " + symbolic_memory::name(t.keep.where, p.chunk) + " before it is sent"};
      }
  }

 private:
  // The last slice that has a cell.
  struct last {
    int step = 0;
    std::size_t slice = 0;
  };

  symbolic_memory const& memory_;
  std::vector<last> sent_in_;  // of each cell
  int step_ = 0;
  places places_, own_;
};

}  // namespace tutti::analyze
