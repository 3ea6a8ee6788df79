// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors that a program does not catch: the first rank of a job to end prints its error in full. Others print one line
// if they end with the same error, or because of that rank.
#pragma once

#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

// Prepares this for a job whose ranks share this segment. Does nothing if the program has a terminate handler of its
// own, or at a second call.
[[gnu::cold]] void share_uncaught_errors(descriptor const& segment_file, int rank) noexcept;

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/shared_memory/uncaught_impl.hpp"
#endif
