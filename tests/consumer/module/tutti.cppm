// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A module of a project that exports what the project uses of tutti.
module;
#include <tutti/tutti.hpp>
export module tutti;
export namespace tutti {
using tutti::all_reduce;
using tutti::run_threads;
}  // namespace tutti
