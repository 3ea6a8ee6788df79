// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors that a program does not catch: the first rank of a job, or of a machine, to end prints its error in full. Others print
// one line if they end with the same error, or because of that rank.
#pragma once

#include <cstddef>
#include <sys/types.h>

#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

// Prepares this for ranks that share this file, which has a std::atomic<std::uint64_t> at `offset` within its first page. Does
// nothing if the program has a terminate handler of its own, or at a second call.
[[gnu::cold]] void share_uncaught_errors(descriptor const& file, std::size_t offset, int rank) noexcept;

// The same for ranks that share no file. One of them keeps a file open, of which this is the number; the others open it by
// the number of that process. -1 if it has prepared this before, or can open no file.
[[gnu::cold]] int file_of_uncaught_errors() noexcept;
[[gnu::cold]] void share_uncaught_errors_with(pid_t keeper, int file, int rank) noexcept;

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/system/uncaught_impl.hpp"
#endif
