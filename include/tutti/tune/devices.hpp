// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Size limits that choose the algorithm and protocol of calls on devices.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <string_view>

namespace tutti {

// Bytes of a message, or of a block. These defaults follow the choices of other libraries. No GPUs with a link between them have been
// measured; among parts of one H100, one_shot was faster up to 2 MiB for 4 ranks and up to 512 KiB for 8. A tuning table can override
// each (`device one_gpu packets 8192`), for the ranks between which it was measured; tools/gpu-check prints such lines for the GPUs
// that it runs on. The defaults hold for processes that share a GPU, because a GPU gives them turns, which take longer than any call.
struct device_limits {
  static constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

  // Packets carry 4 bytes of data in 8, and save a wait for flags. The NCCL interface of MSCCL++ uses packets up to 16
  // KiB too, and an inbox holds as much.
  std::size_t packets_on_one_gpu = std::size_t{16} << 10;       // cuda_local
  std::size_t packets_on_several_gpus = std::size_t{16} << 10;  // cuda_local
  std::size_t packets_of_processes = std::size_t{16} << 10;     // cuda_ipc

  // The limit of one_shot for an all_reduce of cuda_ipc. one_shot reads p-1 arrays of others; two_shot reads
  // 2(p-1)/p arrays and waits once more. Two ranks read the same amount by either. vLLM's custom all_reduce uses the
  // same three numbers; PyTorch uses one_shot up to 256 KiB among the GPUs of a node.
  std::size_t one_shot_of_2 = no_limit;
  std::size_t one_shot_of_4 = std::size_t{512} << 10;  // for 3 and 4 ranks
  std::size_t one_shot = std::size_t{256} << 10;       // for more ranks

  // For cuda_staged: bytes of all ranks together. A second round takes two more copies and a kernel, some 20 us, in
  // which hosts send 200 KB.
  std::size_t one_shot_by_host = std::size_t{256} << 10;

  friend constexpr bool operator==(device_limits const&, device_limits const&) = default;

  constexpr std::size_t one_shot_among(int ranks) const {
    return ranks <= 2 ? one_shot_of_2 : ranks <= 4 ? one_shot_of_4 : one_shot;
  }
};

namespace detail {

// The names of the limits in a tuning table: what the ranks are, and what is limited.
struct named_device_limit {
  std::string_view name;
  std::size_t device_limits::* value;
};
inline constexpr std::array every_device_limit{
    named_device_limit{"one_gpu packets", &device_limits::packets_on_one_gpu},
    named_device_limit{"several_gpus packets", &device_limits::packets_on_several_gpus},
    named_device_limit{"processes packets", &device_limits::packets_of_processes},
    named_device_limit{"processes one_shot_of_2", &device_limits::one_shot_of_2},
    named_device_limit{"processes one_shot_of_4", &device_limits::one_shot_of_4},
    named_device_limit{"processes one_shot", &device_limits::one_shot},
    named_device_limit{"by_host one_shot", &device_limits::one_shot_by_host}};

}  // namespace detail

}  // namespace tutti
