// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kind of memory a pointer names, and which GPUs can access it. A kernel that accesses other memory ends with an
// error after which the process cannot use its GPUs any more.
#pragma once

#include <optional>
#include <span>

#include "tutti/core/config.hpp"
#include "tutti/device/model/device.hpp"

namespace tutti::detail {

// Costs one question to CUDA about memory of a GPU that works alone, and two otherwise. `users`: GPUs.
std::optional<memory_objection> objection_of_gpus(void const* memory, std::span<int const> users);

}  // namespace tutti::detail

#if !defined(TUTTI_CUDA_COMPILED)
#include "tutti/device/cuda/pointers_impl.cuh"
#endif
