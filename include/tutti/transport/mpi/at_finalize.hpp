// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is done when MPI_Finalize begins, while the MPI may still be called.
#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "tutti/core/config.hpp"

namespace tutti::detail {

// Calls `tell` if MPI_Finalize begins while this object exists. A program may end, or finalize the MPI, with open communicators; unless
// other ranks are told, they wait for this one until their time is up.
class at_finalize {
 public:
  [[gnu::cold]] explicit at_finalize(std::function<void()> tell) : tell_(std::move(tell)) {
    std::lock_guard const lock(known().busy);
    known().all.push_back(this);
  }
  at_finalize(at_finalize const&) = delete;
  at_finalize& operator=(at_finalize const&) = delete;
  [[gnu::cold]] ~at_finalize() {
    std::lock_guard const lock(known().busy);
    std::erase(known().all, this);
  }

  [[gnu::cold]] static void run() {
    std::lock_guard const lock(known().busy);
    for (at_finalize* const one : known().all) one->tell_();
  }

 private:
  struct objects {
    std::mutex busy;
    std::vector<at_finalize*> all;
  };
  static objects& known() {
    static auto* const out = new objects;  // MPI_Finalize may be called after destructors of statics
    return *out;
  }

  std::function<void()> tell_;
};

}  // namespace tutti::detail
