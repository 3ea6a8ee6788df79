// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random numbers that tell objects apart: communicators, jobs, checkpoints.
#pragma once

#include <cstdint>

namespace tutti::detail {

// Where a sandbox refuses to draw one, it is made of the time and the process, so that it still differs from all others.
[[gnu::cold]] std::uint64_t random_number() noexcept;

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/core/random_impl.hpp"
#endif
