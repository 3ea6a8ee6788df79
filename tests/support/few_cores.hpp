// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Binds the calling thread, and the threads and processes that it starts, to a few cores.
#pragma once

#include <sched.h>
#include <stdexcept>

#include "tutti/transport/system/caches.hpp"

namespace tutti::testing {

class few_cores {
 public:
  // To at most so many of its cores.
  explicit few_cores(int most) : before_{detail::usable_cores()} {
    cpu_set_t some;
    CPU_ZERO(&some);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&some) < most; ++core)
      if (CPU_ISSET(core, &before_)) CPU_SET(core, &some);
    if (::sched_setaffinity(0, sizeof some, &some) != 0) throw std::runtime_error("sched_setaffinity failed");
    count_ = CPU_COUNT(&some);
  }
  few_cores(few_cores const&) = delete;
  few_cores& operator=(few_cores const&) = delete;
  ~few_cores() { static_cast<void>(::sched_setaffinity(0, sizeof before_, &before_)); }

  int count() const { return count_; }

 private:
  cpu_set_t before_;
  int count_ = 0;
};

}  // namespace tutti::testing
