// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of algorithm/registry.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "tutti/algorithm/registry.hpp"

namespace tutti {

TUTTI_INLINE dynamic_schedule find_schedule(algorithm_id id, collective c) {
  if (!is_scheduled(id)) return {};
  return [&]<std::size_t... C>(std::index_sequence<C...>) {
    constexpr std::array table{&detail::schedules_of<every_collective[C]>...};
    return (*table[static_cast<std::size_t>(c)])[static_cast<std::size_t>(id) - 1];
  }(std::make_index_sequence<every_collective.size()>{});
}

}  // namespace tutti
