// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The options of `on`: how the devices of ranks communicate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tutti/device/model/device.hpp"
#include "tutti/device/staged/area.hpp"

namespace tutti {

// How data travel between the devices of ranks: `ipc`, by reading each other's memory (cuda_ipc); `staged`, by way of the host or
// of an MPI that accepts device memory (cuda_staged); `nccl`, by NCCL in the calls that it has, else as staged (cuda_nccl);
// `two_level`, as ipc inside nodes, and across them by NCCL, or else as staged (cuda_two_level).
enum class device_path : std::uint8_t { automatic, ipc, staged, two_level, nccl };

constexpr std::string_view name(device_path p) {
  switch (p) {
    case device_path::automatic: return "automatic";
    case device_path::ipc: return "ipc";
    case device_path::staged: return "staged";
    case device_path::two_level: return "two_level";
    case device_path::nccl: return "nccl";
  }
  return "?";
}

// What `on` may be told. All ranks pass the same, except for the stream and the node.
//
// stream   of calls and works that name none
// path     automatic: `ipc` if all ranks can, else `two_level` if they are on several nodes and can, else `nccl` if they can, and
//          else `staged`. Naming a path makes its refusal an error
// node     a number that ranks share if they are to read each other's memory; by default, that of the machine and container
// arena    bytes of device memory that peers read, with `ipc` and `two_level`
// slices   how data that travel through the host are cut, and messages on every path. Where peers read messages, each rank has
//          memory of its device for 8 slices besides the arena
template <detail::device D>
struct on_options {
  detail::passed_stream<D> stream{};
  device_path path = device_path::automatic;
  std::optional<int> node{};
  std::size_t arena = std::size_t{16} << 20;
  staging slices{};
};

}  // namespace tutti
