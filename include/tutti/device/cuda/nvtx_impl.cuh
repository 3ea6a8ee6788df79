// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/cuda/nvtx.cuh.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <nvtx3/nvToolsExt.h>

#include "tutti/core/ranges.hpp"
#include "tutti/device/cuda/nvtx.cuh"

namespace tutti::detail {

TUTTI_CUDA_INLINE nvtxDomainHandle_t nvtx_domain() noexcept {
  static nvtxDomainHandle_t const domain = nvtxDomainCreateA("tutti");
  return domain;
}

TUTTI_CUDA_INLINE std::uint64_t start_nvtx_range(char const* text, std::uint64_t bytes) noexcept {
  nvtxEventAttributes_t what{};
  what.version = NVTX_VERSION;
  what.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  what.messageType = NVTX_MESSAGE_TYPE_ASCII;
  what.message.ascii = text;
  what.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  what.payload.ullValue = bytes;
  return nvtxDomainRangeStartEx(nvtx_domain(), &what);
}

TUTTI_CUDA_INLINE void end_nvtx_range(std::uint64_t range) noexcept { nvtxDomainRangeEnd(nvtx_domain(), range); }

inline constexpr range_sink nvtx_ranges{start_nvtx_range, end_nvtx_range};

TUTTI_CUDA_INLINE bool listen_with_nvtx() noexcept {
  bool const listens = std::getenv("NVTX_INJECTION64_PATH") != nullptr;
  if (listens) ranges.store(&nvtx_ranges, std::memory_order_release);
  return listens;
}

}  // namespace tutti::detail
