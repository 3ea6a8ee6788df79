// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce of many arrays: small ones share a call.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <ranges>
#include <source_location>
#include <span>

#include "tutti/collective/all_reduce.hpp"

namespace tutti {

// Arrays of one element type: a vector of vectors, a span of spans, a view that makes spans of parameters.
template <class R>
concept list_of_buffers = std::ranges::forward_range<R> && mutable_buffer<std::ranges::range_reference_t<R>>;
template <class R>
using element_of = value_of<std::ranges::range_reference_t<R>>;

struct coalescing {
  std::size_t bucket_bytes = std::size_t{1} << 20;  // of neighbours in the list that share a call, at most
};

namespace detail {

// Calls f(first, end, elements) for neighbours of the list that fit into a bucket together, and for one that fits in none.
template <class List, class F>
void for_each_bucket(List& list, std::size_t most, F&& f) {
  auto const end = std::ranges::end(list);
  for (auto first = std::ranges::begin(list); first != end;) {
    auto last = first;
    std::size_t elements = 0;
    do elements += std::ranges::size(*last++);
    while (last != end && elements + std::ranges::size(*last) <= most);
    f(first, last, elements);
    first = last;
  }
}

}  // namespace detail

// Every rank passes a list of as many arrays of the same sizes; each is combined in place as all_reduce does. Those that fit
// into a bucket together are copied into it, combined by one call, and copied back: many small arrays then take the time
// of a few calls. `bucket.bucket_bytes` is the same on all ranks.
//
// Order of combination: that of all_reduce on arrays of the buckets' lengths. So a result has the same bits on every rank
// and in every run, but its grouping depends on the sizes of the whole list and on the bucket's.
// Throws error as all_reduce, of a bucket's count.
//
//   std::vector<std::vector<float>> gradients = backward();
//   tutti::all_reduce(comm, gradients, tutti::mean{});
template <class Algorithm = automatic, transport Transport, list_of_buffers List, class Op = sum>
  requires operation<Op, element_of<List>>
void all_reduce(communicator<Transport>& comm, List&& list, Op const& op = {}, options const& o = {},
                coalescing const& bucket = {}, std::source_location where = std::source_location::current()) {
  using T = element_of<List>;
  std::size_t const most = comm.size() > 1 ? bucket.bucket_bytes / sizeof(T) : 0;
  detail::for_each_bucket(list, most, [&](auto first, auto last, std::size_t elements) {
    if (std::ranges::next(first) == last) return all_reduce<Algorithm>(comm, std::span(*first), op, o, where);
    T* const all = reinterpret_cast<T*>(comm.group().bucket.at_least(elements * sizeof(T)));
    T* next = all;
    auto const copy = [](T* to, T const* from, std::size_t n) {
      if (n > 0) std::memcpy(static_cast<void*>(to), from, n * sizeof(T));
    };
    for (auto i = first; i != last; next += std::ranges::size(*i), ++i)
      copy(next, std::ranges::data(*i), std::ranges::size(*i));
    all_reduce<Algorithm>(comm, std::span(all, elements), op, o, where);
    next = all;
    for (auto i = first; i != last; next += std::ranges::size(*i), ++i)
      copy(std::ranges::data(*i), next, std::ranges::size(*i));
  });
}

}  // namespace tutti
