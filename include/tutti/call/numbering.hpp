// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the errors of a group add, because they name ranks by their numbers within it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/core/config.hpp"

namespace tutti::detail {

// "; ranks are numbered within the group {1, 3}", or nothing if they keep their numbers. `whole`: the same of the communicator from
// which the group comes.
[[gnu::cold]] std::string numbered_within(std::vector<int> const& group, std::string_view whole);

// Sets the text that errors of this group, of its levels and of its watchdog end with.
template <class Engine>
[[gnu::cold]] void number_by(Engine& group, std::string text) {
  if constexpr (requires { group.notices().inside_mpi(); })
    if (group.ranks() > 1) group.notices().inside_mpi().set_numbering(text);
  if constexpr (requires { group.levels->number_by(text); }) group.levels->number_by(text);
  group.numbering = std::move(text);
}

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/call/numbering_impl.hpp"
#endif
