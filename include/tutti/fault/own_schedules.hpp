// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The schedules of a program's own algorithms that it has called. Nobody may have verified them, so they are suspects if
// messages of the same call do not fit.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/algorithm/collective.hpp"
#include "tutti/execute/plan.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// `r` is a request for such an algorithm.
[[gnu::cold]] void note_own_schedule(request const& r) noexcept;

// What the verifier says of the one with this id, as the end of a sentence. Sets `when` to `own` unless it finds it correct.
[[gnu::cold]] std::string doubt_about(std::uint32_t id, collective what, int ranks, int root, std::uint64_t call,
                                      circumstance& when);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/fault/own_schedules_impl.hpp"
#endif
