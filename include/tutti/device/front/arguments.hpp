// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is checked of a collective on memory of devices, among ranks that pass a buffer each, before anything is launched.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tutti/algorithm/collective.hpp"
#include "tutti/call/arguments.hpp"
#include "tutti/core/ranges.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/type_name.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/reduce/complex.hpp"
#include "tutti/reduce/ops.hpp"

namespace tutti::detail {

// What carries a collective out, once its arguments were checked: `combine` with an operation, `move` in words that stand for
// elements of any type. It has all that ranks keep from call to call.
template <class R>
concept device_ranks =
    device<typename R::device_type> &&
    requires(R& ranks, R const& fixed,
             detail::device_call<typename R::device_type, std::uint32_t, std::uint32_t> const& call, sum const& op) {
      { fixed.rank() } -> std::same_as<int>;
      { fixed.size() } -> std::same_as<int>;
      { fixed.on() } -> std::same_as<typename R::device_type const&>;
      { ranks.template combine<automatic, collective::all_reduce>(call, op) };
      { ranks.template move<automatic, collective::all_gather>(call) };
    };

template <class Op, class T>
concept device_operation = is_fused<Op> || operation<Op, T>;

template <device_ranks R>
using device_options_of = device_options<typename R::device_type>;

// Buffers of a call, and how many bytes they have.
template <class In, class Out>
void expect_device_buffers_apart(int rank, In const* in, std::size_t in_size, Out const* out, std::size_t out_size,
                                 void const* same_place, std::source_location where) {
  expect_apart(rank, in, in_size * sizeof(In), out, out_size * sizeof(Out),
               std::is_same_v<In, Out> ? same_place : nullptr, where);
}

template <class Op>
inline constexpr bool commutes_on_device = is_commutative<Op>;
template <class Op, class Before, class After>
inline constexpr bool commutes_on_device<fused<Op, Before, After>> = is_commutative<Op>;

template <collective C, class T, class Op = void, device D>
request device_request(device_options<D> const& o, std::uint64_t count, int root = 0) {
  request out{.what = C, .algorithm = o.algorithm, .root = root, .type = type_id<T>(), .element_bytes = sizeof(T)};
  out.count = count;
  if constexpr (!std::is_void_v<Op>) {
    out.op = type_id<Op>();
    out.commutative = commutes_on_device<Op>;
  }
  return out;
}

// Whether blocks have sizes of their own, which all ranks know where they are given.
inline request ragged_device_request(request r, std::span<std::size_t const> counts = {}) {
  std::uint64_t hash = 0;
  for (std::size_t const n : counts) hash = mix(hash, n);
  r.ragged = true;
  r.counts = static_cast<std::uint32_t>(hash);
  return r;
}

template <device D>
void expect_time(int rank, device_options<D> const& o, std::source_location where) {
  if (o.timeout.count() < 0)
    refuse(rank, "device_options::timeout is negative", "leave it 0 for TUTTI_TIMEOUT, or give a time", where);
}

inline layout message_of(std::size_t count) { return layout::whole(count, 1, 1, 1); }

[[noreturn, gnu::cold]] inline void refuse_arrays_in_parts(int rank, std::source_location where) {
  refuse(rank, "two_shot cannot keep the arrays of an epilogue up to date, for a rank combines a part", "use one_shot",
         where);
}

// Blocks of a _v form, in units of `unit`, and the lists that their layout refers to.
class device_blocks {
 public:
  template <device_ranks R>
  device_blocks(R const& ranks, char const* what, std::span<std::size_t const> counts,
                std::span<std::size_t const> offsets, std::size_t size, std::size_t unit, std::source_location where) {
    auto const p = static_cast<std::size_t>(ranks.size());
    expect_size(ranks, join({"the list of ", what, " counts"}), counts.size(), p, where);
    if (!offsets.empty()) expect_size(ranks, join({"the list of ", what, " offsets"}), offsets.size(), p, where);
    counts_.resize(p);
    offsets_.resize(p);
    std::size_t next = 0;
    for (std::size_t q = 0; q < p; ++q) {
      std::size_t const offset = offsets.empty() ? next : offsets[q];
      if (offset > size || counts[q] > size - offset)
        refuse(ranks.rank(),
               join({what, " block ", q, " ends at element ", offset + counts[q], " of a buffer of ", size}),
               "enlarge the buffer, or correct counts and offsets", where);
      counts_[q] = counts[q] * unit;
      offsets_[q] = offset * unit;
      next = offset + counts[q];
    }
  }
  layout where() const { return layout::table(counts_.data(), offsets_.data(), static_cast<int>(counts_.size())); }

 private:
  std::vector<std::size_t> counts_, offsets_;
};

template <class T>
word_of<T> const* words_at(T const* data) {
  return reinterpret_cast<word_of<T> const*>(data);
}
template <class T>
word_of<T>* words_at(T* data) {
  return reinterpret_cast<word_of<T>*>(data);
}

// The host's part of a call, for a profiler: its kernels are shown by the profiler itself.
inline shown_range show_call(request const& r, std::string_view type) {
  return show([&] { return join({name(r.what), " of ", r.count, " ", type, " on a device"}); }, r.bytes());
}

// What only moves. Layouts are in words.
template <class Algorithm, collective C, class T, device_ranks R>
void move_on_device(R& ranks, request const& what, T const* in, layout const& given, T* out, layout const& got,
                    device_options_of<R> const& how, std::source_location where) {
  expect_time(ranks.rank(), how, where);
  shown_range const shown = show_call(what, type_name<T>());
  ranks.template move<Algorithm, C>(device_call<typename R::device_type, word_of<T>, word_of<T>>{.what = what,
                                                                                                 .type = type_name<T>(),
                                                                                                 .in = words_at(in),
                                                                                                 .given = given,
                                                                                                 .out = words_at(out),
                                                                                                 .got = got,
                                                                                                 .how = how,
                                                                                                 .where = where});
}

template <class Algorithm, collective C, class In, class Out, device_ranks R, class Op>
void combine_on_device(R& ranks, request const& what, In const* in, layout const& given, Out* out, layout const& got,
                       Op const& op, device_options_of<R> const& how, std::source_location where) {
  using call = device_call<typename R::device_type, device_form<Op, In>, device_form<Op, Out>>;
  expect_time(ranks.rank(), how, where);
  shown_range const shown = show_call(what, type_name<In>());
  ranks.template combine<Algorithm, C>(call{.what = what,
                                            .type = type_name<In>(),
                                            .in = to_device_form<Op>(in),
                                            .given = given,
                                            .out = to_device_form<Op>(out),
                                            .got = got,
                                            .how = how,
                                            .where = where},
                                       op);
}

template <class Algorithm, collective C, device_ranks R, class In, class Out, class Op>
void prefix_on_device(R& ranks, In const& in, Out& out, Op const& op, device_options_of<R> const& how,
                      std::source_location where) {
  using T = device_value<In const>;
  static_assert(
      !finishes_result<Op, T>,
      "an operation with an epilogue, such as mean, has no meaning for the prefixes of a scan; use tutti::sum "
      "and divide");
  std::size_t const n = in.size();
  T const* const from = device_data(in);
  auto* const to = device_data(out);
  expect_size(ranks, "the output of a scan", out.size(), n, where);
  expect_device_buffers_apart(ranks.rank(), from, n, to, n, from, where);
  combine_on_device<Algorithm, C>(ranks, device_request<C, T, Op>(how, n), from, message_of(n), to, message_of(n), op,
                                  how, where);
}

}  // namespace tutti::detail
