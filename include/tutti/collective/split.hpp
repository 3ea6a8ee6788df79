// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// communicator::split: ranks tell each other their colors and keys, and each makes the group of its color.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "tutti/collective/all_gather.hpp"

namespace tutti {
namespace detail {

struct color_and_key_of_split {
  int color, key;
};

}  // namespace detail

template <transport Transport>
std::optional<communicator<Transport>> communicator<Transport>::split(int color, int key, std::source_location where)
  requires detail::divisible<Transport>
{
  expect_usable(where);
  detail::color_and_key_of_split const mine{color, key};
  std::vector<detail::color_and_key_of_split> all(static_cast<std::size_t>(size()));
  all_gather(*this, std::span(&mine, 1), all, {}, where);
  if (color < 0) return {};
  std::vector<int> members;
  for (int r = 0; r < size(); ++r)
    if (all[static_cast<std::size_t>(r)].color == color) members.push_back(r);
  std::ranges::sort(members, {}, [&](int r) { return std::pair(all[static_cast<std::size_t>(r)].key, r); });
  return subgroup(members, where);
}

}  // namespace tutti
