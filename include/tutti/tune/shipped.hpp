// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tuning table of a machine that has none of its own.
#pragma once

#include "tutti/tune/table_amd_epyc_2_cores.hpp"

namespace tutti::detail {

inline constexpr tuning_table shipped = tables::amd_epyc_2_cores;

}  // namespace tutti::detail
