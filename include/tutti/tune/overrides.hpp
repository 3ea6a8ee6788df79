// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TUTTI_ALGORITHM, which overrides the choice of an algorithm.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "tutti/algorithm/registry.hpp"

namespace tutti::detail {

// Parsed from TUTTI_ALGORITHM: a comma-separated list of `algorithm` (for every collective that it serves) or
// `collective=algorithm`. A later entry overrides an earlier one; naming a collective, or an algorithm for all collectives, twice is
// an error.
class overrides {
 public:
  overrides() = default;
  explicit overrides(std::string_view text);

  algorithm_id operator[](collective c) const { return ids_[static_cast<std::size_t>(c)]; }

 private:
  [[gnu::cold]] void add(std::string_view entry);
  [[noreturn, gnu::cold]] static void refuse(std::string_view entry, std::string_view what, std::string_view way_out);

  std::array<algorithm_id, every_collective.size()> ids_{};
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/tune/overrides_impl.hpp"
#endif
