// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results whose size a rank learns from the other ranks, so that it may lack the memory for them when they already send.
#pragma once

#include <cstddef>
#include <numeric>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "tutti/call/elements.hpp"
#include "tutti/call/survive.hpp"
#include "tutti/call/uneven_blocks.hpp"

namespace tutti {

// The blocks of all ranks, one after another in rank order, and the number of elements of each.
//
//   auto const [elements, counts] = tutti::all_gather_v(comm, mine);
template <class T>
struct blocks {
  std::vector<T> elements;
  std::vector<std::size_t> counts;
};

namespace detail {

// As filled(), of a result whose size depends on what other ranks have sent.
template <class T, class Comm, class Fill>
std::vector<T> filled_by_others(Comm& comm, std::size_t count, std::source_location where, Fill&& fill) {
  return filled<T>(count, fill,
                   [&](auto make) { return revoking_without_memory(comm, count * sizeof(T), where, make); });
}

// The blocks of these sizes, which fill(span, counts) writes.
template <class T, class Comm, class Fill>
blocks<T> received_blocks(Comm& comm, std::vector<std::size_t> counts, std::source_location where, Fill&& fill) {
  std::size_t const all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  auto elements = filled_by_others<T>(comm, all, where, [&](std::span<T> out) { fill(out, counts); });
  return {std::move(elements), std::move(counts)};
}

// Refuses counts that do not fit the input, before the other ranks learn of them.
template <class Comm, class In>
void expect_blocks(Comm& comm, collective c, std::span<std::size_t const> counts, In const& in,
                   std::source_location where) {
  comm.expect_usable(where);
  noting_refusals(comm, [&] {
    std::vector<std::size_t> room(2 * static_cast<std::size_t>(comm.size()));
    lay_out_blocks(comm.rank(), comm.size(), c, side::input, {counts}, in.size(), 1, room.data(), where);
  });
}

}  // namespace detail
}  // namespace tutti
