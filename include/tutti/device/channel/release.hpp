// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the host ends kernels that wait for others, which could not be launched.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "tutti/device/channel/reach.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/fault_copy.hpp"
#include "tutti/device/model/flags.hpp"
#include "tutti/device/model/staging_device.hpp"
#include "tutti/device/model/team.hpp"
#include "tutti/device/model/zeros.hpp"

namespace tutti::detail {

// What the kernels of virtual ranks need for waiting. Those of one device are a single launch, which nothing needs to end.
template <device D, class Reach>
class kernel_release {
  static_assert(!std::is_same_v<Reach, several_devices>, "several devices need pinned host memory");

 public:
  explicit kernel_release(device_team<D> const&) {}
  void begin_call() {}
  Reach reach(int) const { return {}; }
  void raise() const {}
  bool raised() const { return false; }
};

// The memory must outlive the kernels: it is released after they have ended, like any memory of a device.
template <staging_device D>
class kernel_release<D, several_devices> {
 public:
  explicit kernel_release(device_team<D> const& team) : memory_(team.at(0), sizeof(std::uint32_t), true) {
    store_host_word(word(), 0);
    for (int k = 0; k < team.size(); ++k)
      write_zeros(team.at(k), seen_.emplace_back(team.at(k), 1).data(), sizeof(fault_copy));
  }

  void begin_call() {
    if (++call_ == 0) ++call_;
  }
  several_devices reach(int k) const { return {&word(), seen_[static_cast<std::size_t>(k)].data(), call_}; }
  // Kernels of this call that wait for others end soon. Earlier calls, which may still run, are complete and go on.
  void raise() const { store_host_word(word(), call_); }
  bool raised() const { return load_host_word(word()) != 0; }

 private:
  std::uint32_t& word() const { return *reinterpret_cast<std::uint32_t*>(memory_.data()); }

  std::uint32_t call_ = 0;
  message_memory<D> memory_;
  std::vector<device_array<D, fault_copy>> seen_;  // by device
};

}  // namespace tutti::detail
