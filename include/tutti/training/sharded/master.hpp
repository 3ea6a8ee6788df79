// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers of low precision, and the numbers from which they are rounded.
#pragma once

#include <concepts>

#include "tutti/reduce/types.hpp"

namespace tutti::training {

// Parameters that sharded_data_parallel trains.
template <class T>
concept shardable = std::floating_point<T> || std::same_as<T, half> || std::same_as<T, bfloat16>;

// What a step changes: a float of which the parameter is the rounded copy, because most steps are too small to change a half or a
// bfloat16; or the parameter itself. (Micikevicius et al., "Mixed Precision Training", ICLR 2018.)
template <shardable T>
using master_of = typename element_traits<T>::accumulator;
template <shardable T>
inline constexpr bool has_master = !std::same_as<T, master_of<T>>;

}  // namespace tutti::training
