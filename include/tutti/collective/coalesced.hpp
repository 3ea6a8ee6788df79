// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce of many arrays, in which small arrays share a call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "tutti/collective/all_reduce.hpp"
#include "tutti/collective/lasting_reference.hpp"
#include "tutti/started/asynchronous.hpp"

namespace tutti {

// How a list of arrays is grouped into calls. The same on all ranks.
struct coalescing {
  std::size_t bucket_bytes = std::size_t{1} << 20;  // the maximal size of adjacent arrays in the list that share a call
};

namespace detail {

// The element type of a list of arrays: a vector of vectors, a span of spans, a view that creates spans of parameters.
template <class R>
using element_of = element_in<std::ranges::range_reference_t<R>>;

// An array of a list: its input and its output.
template <class T>
struct piece {
  T const* in;
  T* out;
  std::size_t count;
};
template <class List>
auto pieces_of(List& list) {
  std::vector<piece<element_of<List>>> out;
  for (auto&& array : list)
    out.push_back({std::ranges::data(array), std::ranges::data(array), std::ranges::size(array)});
  return out;
}
template <class T>
void copy_into(T* bucket, std::span<piece<T> const> pieces) {
  for (auto const& p : pieces) {
    if (p.count > 0) std::memcpy(static_cast<void*>(bucket), p.in, p.count * sizeof(T));
    bucket += p.count;
  }
}
template <class T>
void copy_out_of(T const* bucket, std::span<piece<T> const> pieces) {
  for (auto const& p : pieces) {
    if (p.count > 0) std::memcpy(static_cast<void*>(p.out), bucket, p.count * sizeof(T));
    bucket += p.count;
  }
}

// Calls f(pieces, elements) for adjacent arrays that fit into a bucket together, and for each array that fits into
// none.
template <class T, class F>
void for_each_bucket(std::span<piece<T> const> all, std::size_t max_elements, F&& f) {
  for (std::size_t first = 0, last = 0; first < all.size(); first = last) {
    std::size_t elements = 0;
    do elements += all[last++].count;
    while (last < all.size() && elements + all[last].count <= max_elements);
    f(all.subspan(first, last - first), elements);
  }
}

// One call for several arrays, which are together in `in` and `out`.
template <class Algorithm, class Comm, class T, class Op>
returned_by<Comm> all_reduce_parts(Comm& comm, std::span<T const> in, std::span<T> out, std::span<piece<T> const> parts,
                                   Op const& op, options const& o, std::source_location where) {
  auto const sizes = parts | std::views::transform(&piece<T>::count);
  options_of_parts const with_sizes{o, parts.size() > 1 ? hash_of_sizes(sizes) : 0};
  return perform_on_arrays<collective::all_reduce, Algorithm>(comm, in, out, op, 0, with_sizes, where);
}

// Memory of one of several calls that start together.
struct used_part {
  std::byte const *begin, *end;
  std::size_t call;
  bool is_written;
};
template <class T>
std::vector<used_part> parts_of(std::span<piece<T> const> pieces) {
  std::vector<used_part> out;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    for (bool const written : {true, false}) {
      auto const* const data = reinterpret_cast<std::byte const*>(written ? pieces[i].out : pieces[i].in);
      if (pieces[i].count > 0 && (written || pieces[i].in != pieces[i].out))
        out.push_back({data, data + pieces[i].count * sizeof(T), i, written});
    }
  return out;
}
// Throws error: bad_argument if one of the calls uses what another one writes.
[[gnu::cold]] void expect_independent(std::vector<used_part> parts, int rank, std::source_location where);

// all_reduce of many arrays, to be started any number of times.
template <class Algorithm, class Transport, class T, class Op>
class coalesced_reductions {
 public:
  coalesced_reductions(communicator<Transport>& comm, Op const& op, options const& o, coalescing const& how,
                       std::source_location where)
      : comm_(comm), op_(op), options_(o), max_elements_(how.bucket_bytes / sizeof(T)), where_(where) {}

  void add(piece<T> const& one) {
    pieces_.push_back(one);
    buckets_.clear();
  }
  void add(std::span<piece<T> const> all) {
    for (auto const& one : all) add(one);
  }

  // The arrays are those of calls that may depend on each other, which start() refuses.
  void are_separate_calls() { are_separate_calls_ = true; }

  // Adds the works of all calls to the list.
  void start(std::vector<work>& works) {
    if (buckets_.empty()) buckets_ = cut();
    for (auto const& b : buckets_) {
      if (b->all == nullptr) {
        b->call.start(where_);
        works.push_back(b->call);
        continue;
      }
      if (b->use) b->use->begin();
      std::shared_ptr<bucket> const in_use(b.get(), [b](bucket* used) {
        if (used->use) used->use->leave();
      });
      copy_into<T>(b->all, b->pieces);
      b->call.start(where_);
      works.push_back(b->call.then([b, in_use] {
        if (auto const changed = b->use ? b->use->end() : nullptr) std::rethrow_exception(changed);
        copy_out_of<T>(b->all, b->pieces);
      }));
    }
  }

 private:
  struct bucket {
    std::optional<shared_array<std::byte, Transport>> memory;
    T* all = nullptr;  // in the memory; null for a piece that is a call of its own
    std::vector<piece<T>> pieces;
    persistent call;
    std::unique_ptr<buffers_in_use> use;  // of the pieces; null unless buffers are checked
  };

  std::vector<std::shared_ptr<bucket>> cut() {
    communicator<Transport>& comm = comm_.get();
    std::vector<std::shared_ptr<bucket>> buckets;
    if (are_separate_calls_) expect_independent(parts_of<T>(pieces_), comm.rank(), where_);
    for_each_bucket<T>(pieces_, max_elements_, [&](std::span<piece<T> const> pieces, std::size_t elements) {
      auto b = std::make_shared<bucket>();
      b->pieces.assign(pieces.begin(), pieces.end());
      std::span<T const> in(pieces[0].in, elements);
      std::span<T> out(pieces[0].out, elements);
      if (pieces.size() > 1) {
        b->memory.emplace(comm.engine(), elements * sizeof(T));
        b->all = reinterpret_cast<T*>(b->memory->data());
        in = out = std::span(b->all, elements);
        if (comm.engine().environment.checks_buffers) {
          b->use = std::make_unique<buffers_in_use>("all_reduce", comm.rank(), where_);
          for (auto const& p : pieces) {
            b->use->reads(p.in, p.count * sizeof(T));
            b->use->writes(p.out, p.count * sizeof(T));
          }
        }
      }
      auto kept = prepared(comm);
      b->call = all_reduce_parts<Algorithm>(kept, in, out, pieces, op_, options_, where_);
      buckets.push_back(std::move(b));
    });
    return buckets;
  }

  lasting_reference<Transport> comm_;
  Op op_;
  options options_;
  std::size_t max_elements_;
  bool are_separate_calls_ = false;
  std::source_location where_;
  std::vector<piece<T>> pieces_;
  std::vector<std::shared_ptr<bucket>> buckets_;
};

template <class Algorithm, class Transport, class List, class Op>
void all_reduce_list(communicator<Transport>& comm, List& list, Op const& op, options const& o,
                     coalescing const& bucket, std::source_location where) {
  using T = element_of<List>;
  comm.expect_usable(where);
  std::size_t const max_elements = comm.size() > 1 ? bucket.bucket_bytes / sizeof(T) : 0;
  auto const all = pieces_of(list);
  for_each_bucket<T>(all, max_elements, [&](std::span<piece<T> const> pieces, std::size_t elements) {
    if (pieces.size() == 1) return all_reduce<Algorithm>(comm, std::span(pieces[0].out, elements), op, o, where);
    auto const memory = comm.engine().bucket.at_least(elements * sizeof(T));
    T* const together = reinterpret_cast<T*>(memory.data());
    copy_into<T>(together, pieces);
    all_reduce_parts<Algorithm>(comm, std::span<T const>(together, elements), std::span(together, elements), pieces, op,
                                o, where);
    copy_out_of<T>(together, pieces);
  });
}
template <class Algorithm, class Transport, class List, class Op>
work all_reduce_list(asynchronous<Transport>& comm, List& list, Op const& op, options const& o,
                     coalescing const& bucket, std::source_location where) {
  using T = element_of<List>;
  comm.blocking().expect_usable(where);
  coalesced_reductions<Algorithm, Transport, T, Op> all(comm.blocking(), op, o, bucket, where);
  all.add(pieces_of(list));
  std::vector<work> works;
  start_all(works, [&] { all.start(works); });
  return joined(works);
}

template <class Comm, class List, class Op>
consteval bool accepts_list() {
  using plain = std::remove_cvref_t<Comm>;
  if constexpr (!expect_communicator<Comm>()) return false;
  else if constexpr (!is_communicator<plain> && !is_asynchronous<plain>)
    static_assert(
        never<Comm>,
        "a list of arrays cannot be prepared or put into a batch; add its arrays to a tutti::batch one by one, "
        "which shares calls among them too");
  else if constexpr (!std::ranges::forward_range<List>)
    static_assert(never<List>,
                  "a list of arrays is walked through more than once; pass a forward range, such as a vector");
  else if constexpr (requires { typename std::ranges::range_value_t<List>::traits_type; })
    static_assert(never<List>,
                  "strings cannot be combined; to collect those of all ranks, include tutti/objects.hpp and call "
                  "all_gather_object");
  else if constexpr (expect_contiguous<std::ranges::range_reference_t<List>>())
    if constexpr (expect_output<std::ranges::range_reference_t<List>>())
      return expect_operation<Op, element_of<List>>();
  return false;
}

}  // namespace detail

// Combines a list of arrays, each in place as all_reduce does.
//
// Every rank passes a list of the same number of arrays with the same sizes. Arrays that fit into a bucket together are
// copied into it, combined by one call, and copied back: many small arrays then take the time of a few calls.
// `bucket.bucket_bytes` must be the same on all ranks. On async(comm), starts all calls, each bucket in memory of its
// own, and returns one work. To repeat that, see batch.
//
// Order of combination: that of all_reduce on arrays of the lengths of the buckets. A result has the same bits on every
// rank and, where those of all_reduce are, in every run; but its grouping depends on the sizes of all arrays of the list
// and on the bucket size.
// Throws error as all_reduce does, with the count of a bucket.
// Cost: that of one all_reduce per bucket, and two copies of each array that shares one.
//
//   std::vector<std::vector<float>> gradients = backward();
//   tutti::all_reduce(comm, gradients, tutti::mean{});
template <class Algorithm = automatic, class Comm, class List, class Op = sum>
  requires detail::host_ranks<Comm> && detail::lists_arrays<List, Op>
auto all_reduce(Comm&& comm, List&& list, Op const& op = {}, options const& o = {}, coalescing const& bucket = {},
                std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_list<Comm, List, Op>())
    return detail::all_reduce_list<Algorithm>(comm, list, op, o, bucket, where);
}
template <class Algorithm = automatic, class Comm, class List>
  requires detail::host_ranks<Comm> && detail::lists_arrays<List, sum>
auto all_reduce(Comm&& comm, List&& list, options const& o, coalescing const& bucket = {},
                std::source_location where = std::source_location::current()) {
  return all_reduce<Algorithm>(comm, list, sum{}, o, bucket, where);
}

}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/collective/coalesced_impl.hpp"
#endif
