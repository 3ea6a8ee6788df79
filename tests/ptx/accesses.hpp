// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Who has accessed a word of memory, to find accesses that race: no order between them, one of them writes, and they are not
// both atomic for each other.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "ptx/module.hpp"
#include "ptx/past.hpp"

namespace tutti::testing::ptx {

struct access {
  stamp by;
  std::uint8_t bytes = 0;  // of the word, a bit for each
  bool writes = false;
  bool strong = false;  // not weak: it cannot race with those whose scope includes it
  ptx::scope scope = scope::device;
  int line = -1;  // of the PTX; none for copies and the like
};

// What a strong store has made visible together with its value.
struct release {
  std::uint64_t value = 0;
  std::size_t bytes = 0;
  shared_past before;  // null: it releases nothing
  stamp by;
  ptx::scope scope = scope::device;
};
using shared_release = std::shared_ptr<release const>;

// Of a word of 8 bytes.
class word_history {
 public:
  // Adds an access. Returns an earlier one with which it races, or null. knows(stamp) tells what came before it.
  template <class Knows>
  access const* add(access const& now, Knows const& knows) {
    auto const races = [&](access const& a) {
      return (a.bytes & now.bytes) != 0 && !a.by.same_thread(now.by) && !atomic_for_each_other(a, now) && !knows(a.by);
    };
    for (access const& a : writes_)
      if (races(a)) return &a;
    if (now.writes)
      for (access const& a : reads_)
        if (races(a)) return &a;

    // An access that comes before this one need not be compared with later ones, which this one is compared with.
    auto const stands_for = [&](access const& a) {
      return (a.bytes & ~now.bytes) == 0 && (a.strong || !now.strong) && (a.by.same_thread(now.by) || knows(a.by));
    };
    if (now.writes) {
      std::erase_if(writes_, stands_for);
      std::erase_if(reads_, stands_for);
      writes_.push_back(now);
    } else if (!reads_.empty() && reads_.back().by.same_thread(now.by) && stands_for(reads_.back())) {
      reads_.back() = now;
    } else {
      // To look for such reads each time would take long.
      if (reads_.size() >= enough_) {
        std::erase_if(reads_, stands_for);
        keep_latest_of_each_thread();
        enough_ = std::max<std::size_t>(16, 2 * reads_.size());
      }
      reads_.push_back(now);
    }
    return nullptr;
  }

  // The release of the 4 bytes that contain this byte of the word.
  shared_release& released(std::uint64_t address) { return released_[address / 4 % 2]; }

 private:
  static bool atomic_for_each_other(access const& a, access const& b) {
    return a.strong && b.strong && a.bytes == b.bytes && include_each_other(a.scope, a.by, b.scope, b.by);
  }

  void keep_latest_of_each_thread() {
    auto const key = [](access const& a) { return std::tuple(a.by.block, a.by.thread, a.bytes, a.strong, a.scope); };
    std::sort(reads_.begin(), reads_.end(), [&](access const& a, access const& b) {
      return std::tuple(key(a), a.by.barriers, a.by.clock) < std::tuple(key(b), b.by.barriers, b.by.clock);
    });
    auto const first =
        std::unique(reads_.rbegin(), reads_.rend(), [&](access const& a, access const& b) { return key(a) == key(b); });
    reads_.erase(reads_.begin(), first.base());
  }

  std::vector<access> writes_, reads_;
  std::size_t enough_ = 16;
  std::array<shared_release, 2> released_;
};

}  // namespace tutti::testing::ptx
