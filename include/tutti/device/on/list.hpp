// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce of many arrays of device memory, in which small arrays share a call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <source_location>
#include <span>
#include <type_traits>
#include <vector>

#include "tutti/collective/coalesced.hpp"
#include "tutti/device/front/accessible.hpp"
#include "tutti/device/front/collectives.hpp"
#include "tutti/device/on/bucket.hpp"
#include "tutti/reduce/fused.hpp"

namespace tutti {
namespace detail {

template <class List>
using device_list_element = device_value<std::remove_reference_t<std::ranges::range_reference_t<List>>>;

template <class List>
auto device_pieces_of(List& list) {
  using T = device_list_element<List>;
  std::vector<piece<T>> out;
  for (auto&& array : list) {
    std::span<T> const its = elements_of(array);
    out.push_back({its.data(), its.data(), its.size()});
  }
  return out;
}

}  // namespace detail

// Combines a list of arrays of the device, each in place as all_reduce does; see collective/coalesced.hpp, whose rules hold. Arrays
// that share a call are copied into memory of the ranks by one kernel for every 64 of them, and back by another. The calls are
// ordered on options.stream, whose work (`ranks.work(stream)`) stands for all of them. options.symmetric is a promise about the
// arrays that do not share a call.
//
// Throws error besides: bad_argument for the first call with a list of a size while its stream is being captured
//
//   std::vector<thrust::device_vector<float>> gradients = backward();
//   tutti::all_reduce(ranks, gradients, tutti::mean{}, {.stream = stream});
template <class Algorithm = automatic, class R, detail::device_list List, class Op = sum>
  requires requires(R& ranks) { ranks.bucket(); } && detail::device_operation<Op, detail::device_list_element<List>>
void all_reduce(R& ranks, List&& list, Op const& op = {}, detail::device_options_of<R> const& how = {},
                coalescing const& group = {}, std::source_location where = std::source_location::current()) {
  using T = detail::device_list_element<List>;
  static_assert(detail::arrays_of<Op> == 0,
                "an epilogue that updates arrays has one set of them, so it cannot follow a list; call all_reduce for "
                "each array");
  static_assert(!detail::is_row_wise<Op>,
                "arrays that share a call have no rows of their own, so by_rows cannot follow a list; call all_reduce "
                "for each array");
  detail::expect_list_accessible("all_reduce", ranks.on(), ranks.rank(), list, where);
  auto const all = detail::device_pieces_of(list);
  std::size_t const most = ranks.size() > 1 ? group.bucket_bytes / sizeof(T) : 0;
  std::size_t elements_in_all = 0;
  for (auto const& one : all) elements_in_all += one.count;
  auto const stream = ranks.with_stream(how).stream;
  auto& bucket = ranks.bucket();
  auto together_by = how;
  together_by.symmetric = false;  // peers cannot read the bucket
  detail::for_each_bucket<T>(all, most, [&](std::span<detail::piece<T> const> pieces, std::size_t elements) {
    if (pieces.size() == 1) return all_reduce<Algorithm>(ranks, std::span<T>(pieces[0].out, elements), op, how, where);
    std::uint32_t const sizes = detail::hash_of_sizes(pieces | std::views::transform(&detail::piece<T>::count));
    bucket.template with<T>(ranks.host(), std::min(most, elements_in_all), stream, where, [&](T* together) {
      bucket.template fill<T>(stream, together, pieces);
      std::span<T> const its(together, elements);
      detail::reduce_on_device<Algorithm, collective::all_reduce>(ranks, its, its, op, 0, together_by, where, sizes);
      bucket.template empty<T>(stream, together, pieces);
    });
  });
}

}  // namespace tutti
