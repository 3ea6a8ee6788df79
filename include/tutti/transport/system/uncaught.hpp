// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors that a program does not catch: the first rank of a job, or of a machine, to end prints its error in full. Others print
// one line if they end with the same error, or because of that rank. A rank that ends because another has revoked the communicator
// lets that rank end first, because launchers return the exit code of the first.
#pragma once

#include <cstddef>
#include <string_view>
#include <sys/types.h>

#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

// Prepares this for ranks that share this file, which has a std::atomic<std::uint64_t> at `offset` within its first page. Does
// nothing if the program has a terminate handler of its own, or at a second call.
[[gnu::cold]] void share_uncaught_errors(descriptor const& file, std::size_t offset, int rank) noexcept;

// The same for ranks that share no file yet. One of them makes a file and keeps it open; file_of_uncaught_errors returns its
// descriptor, or -1 if that rank has prepared this before or cannot make a file. All of them then open it through /proc, by the
// number of that process (`keeper`) and the descriptor.
[[gnu::cold]] int file_of_uncaught_errors() noexcept;
[[gnu::cold]] void share_uncaught_errors_with(pid_t keeper, int file, int rank) noexcept;

// This rank prints this error itself.
[[gnu::cold]] void count_as_printed(std::string_view text) noexcept;

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/system/uncaught_impl.hpp"
#endif
