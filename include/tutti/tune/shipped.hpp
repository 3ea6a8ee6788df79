// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tuning tables that tutti ships. A machine without a table of its own uses the one for the most similar processor.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "tutti/tune/table.hpp"
#include "tutti/tune/table_amd_zen1.hpp"
#include "tutti/tune/table_amd_zen3.hpp"
#include "tutti/tune/table_amd_zen5.hpp"
#include "tutti/tune/table_intel_xeon.hpp"

namespace tutti::detail {

// A processor as the instruction CPUID describes it. Other architectures have no vendor.
struct processor {
  std::string_view vendor;
  unsigned family = 0;
};

struct shipped_table {
  processor measured_on;
  tuning_table table;
};

// In the order of preference for processors from other vendors.
inline constexpr std::array<shipped_table, 4> shipped_tables{{
    {{"AuthenticAMD", 26}, tables::amd_zen5},
    {{"AuthenticAMD", 25}, tables::amd_zen3},
    {{"AuthenticAMD", 23}, tables::amd_zen1},
    {{"GenuineIntel", 6}, tables::intel_xeon},
}};

// The table for no particular processor.
inline constexpr tuning_table const& shipped = shipped_tables[0].table;

// The position of the table for this processor: of the same family, else of the same vendor.
constexpr std::size_t shipped_for(processor const& here) {
  std::size_t best = 0;
  int best_match = 0;
  for (std::size_t i = 0; i < shipped_tables.size(); ++i) {
    processor const& other = shipped_tables[i].measured_on;
    int const match = other.vendor != here.vendor ? 0 : other.family != here.family ? 1 : 2;
    if (match > best_match) best = i, best_match = match;
  }
  return best;
}

}  // namespace tutti::detail
