// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The distance between ranks whose kernels wait for each other (one device, several, several processes), and how they wait.
#pragma once

#include <cstdint>
#include <sched.h>
#include <type_traits>

#include "tutti/core/config.hpp"
#include "tutti/device/model/fault_copy.hpp"
#include "tutti/device/model/flags.hpp"

namespace tutti::detail {

// Virtual ranks of one device, in one launch.
struct one_device {
  static constexpr flag_scope scope = flag_scope::device;
};

// Virtual ranks of one process, in a launch on each of several devices. If one of these launches fails, the host ends the others.
struct several_devices {
  static constexpr flag_scope scope = flag_scope::system;

  std::uint32_t const*
      released;      // in host memory: the call whose kernels are to end, and those of later calls; 0: none
  fault_copy* seen;  // in device memory: what the kernels of the device know of it
  std::uint32_t call;

  // Whether kernels of this call are to end. (Calls are fewer than 2^31 between two that are compared.)
  TUTTI_HOST_DEVICE bool ends(std::uint64_t now) const {
    return seen->look(*released, now) && static_cast<std::int32_t>(call - load_host_word(seen->raised)) >= 0;
  }
};

// Ranks that are processes with a device each. Through these words a kernel and the watch of the host communicate; those in host
// memory are 0 between calls.
struct several_processes {
  static constexpr flag_scope scope = flag_scope::system;

  std::uint32_t const* fault;  // in host memory: not 0 once all ranks give up
  fault_copy* seen;            // in device memory: what this rank's kernels know of it
  std::uint32_t* now;          // in host memory: the call that this rank is in
  std::uint32_t* beat;         // in host memory: changes with every launch
  std::uint32_t* launches;     // in device memory: the value of beat
  std::uint32_t* ended;        // in device memory: blocks that have finished this call
  std::uint32_t call;

  // Called by one thread of the first block of a rank; leave() by one thread of each block at its end. It returns whether
  // the others have left.
  TUTTI_HOST_DEVICE void enter() const {
    store_host_word(*beat, ++*launches);
    store_host_word(*now, call);
  }
  TUTTI_HOST_DEVICE bool leave(int blocks) const {
    if (!is_last_of(blocks, *ended)) return false;
    store_host_word(*now, 0);
    return true;
  }
};

template <class Reach>
inline constexpr bool may_give_up = false;
template <>
inline constexpr bool may_give_up<several_processes> = true;

// On the host, blocks are threads that share cores.
TUTTI_HOST_DEVICE inline void let_other_blocks_run() {
#if !defined(__CUDA_ARCH__)
  ::sched_yield();
#endif
}

// The wait of a polling loop for another block. Ranks that are watched stop waiting when all give up. Others abort the kernel
// when there was no progress for `limit` nanoseconds, and stop waiting when the host releases them.
template <class Reach>
class polling_wait {
 public:
  TUTTI_HOST_DEVICE polling_wait(Reach const& reach, std::uint64_t limit)
      : reach_(reach), limit_(static_cast<std::int64_t>(limit)) {}

  TUTTI_HOST_DEVICE void restart() {
    if constexpr (may_give_up<Reach>) look_.restart();
    else began_ = 0;
  }
  // Call after a poll without success. Returns whether to poll again.
  TUTTI_HOST_DEVICE bool keep_polling() {
    std::uint64_t const now = nanoseconds_now();
    if constexpr (may_give_up<Reach>) {
      if (look_.due(now) && reach_.seen->look(*reach_.fault, now)) return false;
    } else {
      if (began_ == 0) began_ = now;
      if constexpr (std::is_same_v<Reach, several_devices>)
        if (look_.due(now) && reach_.ends(now)) return false;
      if (fault_copy::passed_until(now, began_) > limit_) abort_kernel();
    }
    let_other_blocks_run();
    return true;
  }

 private:
  Reach const& reach_;
  std::int64_t limit_;
  std::uint64_t began_ = 0;  // of ranks that abort
  interval_timer look_;      // of ranks that may be told to stop
};

}  // namespace tutti::detail
