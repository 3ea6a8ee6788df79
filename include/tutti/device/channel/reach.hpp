// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How far apart the ranks are whose kernels wait for each other, and for how long one waits.
#pragma once

#include <cstdint>
#include <sched.h>

#include "tutti/core/config.hpp"
#include "tutti/device/model/flags.hpp"

namespace tutti::detail {

// Virtual ranks of one device, in one launch.
struct one_device {
  static constexpr flag_scope scope = flag_scope::device;
};

// Virtual ranks of one process, in a launch on each of several devices.
struct several_devices {
  static constexpr flag_scope scope = flag_scope::system;
};

// Ranks that are processes with a device each. The words are how a kernel and the host's watch over it talk; those of the
// host are 0 between calls.
struct several_processes {
  static constexpr flag_scope scope = flag_scope::system;

  std::uint32_t const* fault;  // of the host: not 0 where all ranks give up
  std::uint32_t* now;          // of the host: in which call this rank is
  std::uint32_t* beat;         // of the host: changes with every launch
  std::uint32_t* launches;     // of the device: what beat shows
  std::uint32_t* ended;        // of the device: blocks that are through with this call
  std::uint32_t call;

  // By one thread of the first block of a rank, and by one of each block at its end.
  TUTTI_HOST_DEVICE void enter() const {
    store_host_word(*beat, ++*launches);
    store_host_word(*now, call);
  }
  TUTTI_HOST_DEVICE void leave(int blocks) const {
    if (count_up(*ended) + 1 != static_cast<std::uint32_t>(blocks)) return;
    *ended = 0;
    store_host_word(*now, 0);
  }
};

template <class Reach>
inline constexpr bool may_give_up = false;
template <>
inline constexpr bool may_give_up<several_processes> = true;

// Looks for what another block does. Where ranks are watched it ends when they give up; elsewhere the kernel ends, and with
// it the use of the device, when nothing was found for `limit` nanoseconds.
template <class Reach>
class patient_look {
 public:
  TUTTI_HOST_DEVICE patient_look(Reach const& reach, std::uint64_t limit) : reach_(reach), limit_(limit) {}

  TUTTI_HOST_DEVICE void found() { began_ = 0; }
  // Whether to look again.
  TUTTI_HOST_DEVICE bool found_nothing() {
    std::uint64_t const now = nanoseconds_now();
    if (began_ == 0) began_ = now;
    if constexpr (may_give_up<Reach>) {
      if (now - began_ > look_at_host_every) {
        began_ = now;
        if (load_host_word(*reach_.fault) != 0) return false;
      }
    } else {
      if (now - began_ > limit_) stop_the_device();
    }
    // A device has nobody else to run meanwhile; on the host, blocks are threads that share cores.
#if !defined(__CUDA_ARCH__)
    ::sched_yield();
#endif
    return true;
  }

 private:
  static constexpr std::uint64_t look_at_host_every = 20'000;  // ns; a look takes one or two thousand

  Reach const& reach_;
  std::uint64_t limit_, began_ = 0;
};

}  // namespace tutti::detail
