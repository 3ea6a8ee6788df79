// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Output that a launcher has not read yet. It may never read it once it has been told to end the job, and so lose the reason.
#pragma once

namespace tutti::detail {

// Returns when all that this process has written to the pipes of its standard output and error has been read, or after a second.
[[gnu::cold]] void wait_for_reader_of_output() noexcept;

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/system/unread_output_impl.hpp"
#endif
