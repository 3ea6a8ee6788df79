// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/same_parameters.hpp.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/same_parameters.hpp"

namespace tutti::detail {

TUTTI_INLINE std::string parameter_name(std::size_t index, std::string const& name) {
  return name.empty() ? join({"parameter ", index}) : join({"parameter ", index, " (", name, ")"});
}

TUTTI_INLINE std::string parameter_shape(std::size_t values, std::span<std::size_t const> shape,
                                         std::string const& name, int rank, std::source_location where) {
  if (shape.empty()) return join({values});
  std::string out;
  std::size_t product = 1;
  for (std::size_t const extent : shape) {
    out += join({out.empty() ? "" : " x ", extent});
    product *= extent;
  }
  if (product != values)
    refuse(rank, join({name, " has the shape ", out, ", but an array of ", values, " values"}),
           "pass the whole array, and its own shape", where);
  return out;
}

TUTTI_INLINE void expect_apart(std::span<std::span<std::byte const> const> arrays, std::span<std::string const> names,
                               int rank, std::source_location where) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    if (!arrays[i].empty()) order.push_back(i);
  std::ranges::sort(order, std::less{}, [&](std::size_t i) { return std::pair(arrays[i].data(), i); });
  for (std::size_t k = 1; k < order.size(); ++k) {
    auto const [first, second] = std::minmax(order[k - 1], order[k]);
    std::span<std::byte const> const before = arrays[order[k - 1]];
    if (std::less{}(arrays[order[k]].data(), before.data() + before.size()))
      refuse(rank, join({names[first], " and ", names[second], " share memory"}),
             "list weights once that several layers use, and add up their gradients", where);
  }
}

TUTTI_INLINE std::string one_text(std::span<std::string const> lines) {
  std::string out;
  for (std::string const& line : lines) out += line + '\n';
  return out;
}

TUTTI_INLINE std::string first_difference(std::span<std::string const> mine, std::string const& of_rank_0, int rank) {
  std::string_view left = of_rank_0;
  for (std::string const& own : mine) {
    if (left.empty()) return join({"rank ", rank, " has ", own, ", which rank 0 lacks"});
    if (!left.starts_with(own) || left[own.size()] != '\n')
      return join({"rank ", rank, " has ", own, ", but rank 0 has ", left.substr(0, left.find('\n'))});
    left.remove_prefix(own.size() + 1);
  }
  return join({"rank ", rank, " lacks ", left.substr(0, left.find('\n')), ", which rank 0 has"});
}

}  // namespace tutti::detail
