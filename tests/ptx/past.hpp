// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What has happened before what: vector clocks in which a grid that has ended, or a block up to a barrier, is one entry.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ptx/module.hpp"

namespace tutti::testing::ptx {

// Whose access it was, and when. The host and the streams count as blocks of one thread, of grid 0, which never ends.
struct stamp {
  std::uint32_t grid = 0, block = 0;  // the numbers that the machine gives them
  std::uint32_t barriers = 0;         // that the block has passed
  std::uint32_t clock = 0;            // how many releases the thread has made
  std::uint16_t thread = 0, gpu = 0;

  bool same_thread(stamp const& other) const { return block == other.block && thread == other.thread; }
};

// Whether each of two operations has a scope that includes the thread of the other.
inline bool include_each_other(scope a_scope, stamp const& a, scope b_scope, stamp const& b) {
  switch (std::min(a_scope, b_scope)) {
    case scope::block: return a.block == b.block;
    case scope::device: return a.gpu == b.gpu;
    case scope::system: return true;
  }
  return false;
}

class past {
 public:
  bool has(stamp const& s) const;
  bool includes(past const& other) const;
  void join(past const& other);
  void add_grid(std::uint32_t grid);  // that has ended
  void add_barrier(stamp const& of);  // of a block, up to this number of barriers
  void add_thread(stamp const& s);    // up to this clock

 private:
  void drop_what_is_implied();

  std::uint32_t grids_below_ = 1;     // of which all have ended
  std::vector<std::uint32_t> grids_;  // others that have, in order
  std::vector<stamp> blocks_;         // by number; one for each
  std::vector<stamp> threads_;        // by block and thread; one for each
};

using shared_past = std::shared_ptr<past const>;
shared_past joined(shared_past const& a, shared_past const& b);

// A copy that can be extended.
std::shared_ptr<past> copy_of(shared_past const& from);

// A thread, a stream or the host.
class agent {
 public:
  explicit agent(stamp const& first = {}, shared_past before = nullptr) : now_(first), past_(std::move(before)) {}

  stamp const& now() const { return now_; }
  shared_past const& known() const { return past_; }
  bool knows(stamp const& s) const {
    if (s.block == now_.block && (s.thread == now_.thread || s.barriers < now_.barriers)) return true;
    return past_ != nullptr && past_->has(s);
  }
  void learn(shared_past const& other) { past_ = joined(past_, other); }
  // All that it has done so far, and all that it knows.
  shared_past release();
  // Its block has passed a barrier, and all threads of the block know this.
  void pass_barrier(shared_past const& together) {
    past_ = together;
    ++now_.barriers;
  }

 private:
  stamp now_;
  shared_past past_;
};

}  // namespace tutti::testing::ptx
