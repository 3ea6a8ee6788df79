// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on memory of devices among ranks that pass a buffer each: what is checked before anything is launched.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <source_location>
#include <span>
#include <type_traits>
#include <vector>

#include "tutti/algorithm/collective.hpp"
#include "tutti/collective/arguments.hpp"
#include "tutti/collective/device_call.hpp"
#include "tutti/core/ranges.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/type_name.hpp"
#include "tutti/execute/cuda_jobs.hpp"
#include "tutti/reduce/complex.hpp"
#include "tutti/reduce/ops.hpp"

namespace tutti {

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
      { ranks.template combine<collective::all_reduce>(call, op) };
      { ranks.template move<collective::all_gather>(call) };
    };

template <class Op, class T>
concept device_operation = is_fused<Op> || operation<Op, T>;

template <device_ranks R>
using device_options_of = device_options<typename R::device_type>;

namespace detail {

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
[[gnu::cold]] inline shown_range show(range_sink const* sink, request const& r, std::string_view type) {
  return {sink, join({name(r.what), " of ", r.count, " ", type, " on a device"}), r.bytes()};
}
inline shown_range show_call(request const& r, std::string_view type) {
  range_sink const* const sink = range_listener();
  return sink == nullptr ? shown_range() : show(sink, r, type);
}

// What only moves. Layouts are in words.
template <collective C, class T, device_ranks R>
void move_on_device(R& ranks, request const& what, T const* in, layout const& given, T* out, layout const& got,
                    device_options_of<R> const& how, std::source_location where) {
  expect_time(ranks.rank(), how, where);
  shown_range const shown = show_call(what, type_name<T>());
  ranks.template move<C>(device_call<typename R::device_type, word_of<T>, word_of<T>>{.what = what,
                                                                                      .type = type_name<T>(),
                                                                                      .in = words_at(in),
                                                                                      .given = given,
                                                                                      .out = words_at(out),
                                                                                      .got = got,
                                                                                      .how = how,
                                                                                      .where = where});
}

template <collective C, class In, class Out, device_ranks R, class Op>
void combine_on_device(R& ranks, request const& what, In const* in, layout const& given, Out* out, layout const& got,
                       Op const& op, device_options_of<R> const& how, std::source_location where) {
  using call = device_call<typename R::device_type, device_form<Op, In>, device_form<Op, Out>>;
  expect_time(ranks.rank(), how, where);
  shown_range const shown = show_call(what, type_name<In>());
  ranks.template combine<C>(call{.what = what,
                                 .type = type_name<In>(),
                                 .in = to_device_form<Op>(in),
                                 .given = given,
                                 .out = to_device_form<Op>(out),
                                 .got = got,
                                 .how = how,
                                 .where = where},
                            op);
}

template <collective C, device_ranks R, class In, class Out, class Op>
void prefix_on_device(R& ranks, In const& in, Out& out, Op const& op, device_options_of<R> const& how,
                      std::source_location where) {
  using T = device_value<In const>;
  static_assert(
      !has_finish<Op, accumulator_for<Op, T>>,
      "an operation with an epilogue, such as mean, has no meaning for the prefixes of a scan; use tutti::sum "
      "and divide");
  std::size_t const n = in.size();
  T const* const from = device_data(in);
  auto* const to = device_data(out);
  expect_size(ranks, "the output of a scan", out.size(), n, where);
  expect_device_buffers_apart(ranks.rank(), from, n, to, n, from, where);
  combine_on_device<C>(ranks, device_request<C, T, Op>(how, n), from, message_of(n), to, message_of(n), op, how, where);
}

}  // namespace detail

// All of these take what carries them out, such as cuda_ipc, and then what the collective of the same name takes of ranks on
// the host, in the same order: what each rank passes and gets, what may be in place, and who needs to pass what at a root are
// written there. `op` is an operation, or fused{operation, prologue, epilogue}. Where elements are combined, those of `out` may
// be of another type, to which results are rounded; input and output are then two buffers that do not touch.
//
// Ordered on options.stream, and not run yet when they return; buffers stay as they are until then. Contributions are combined
// in rank order by every algorithm that there is; results have the bits of one_shot on the host, see cuda_combine for what a
// device may fuse.
// Throw error: bad_argument before anything is launched; mismatch, timeout, rank_lost, rank_left, system, of this call or one
// before.

//   tutti::all_reduce(ranks, gradient, tutti::mean{}, {.stream = stream});
template <device_ranks R, device_buffer In, device_buffer Out, class Op = sum>
  requires device_operation<Op, device_value<In const>>
void all_reduce(R& ranks, In const& in, Out&& out, Op const& op = {}, device_options_of<R> const& how = {},
                std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  std::size_t const n = in.size();
  T const* const from = device_data(in);
  auto* const to = device_data(out);
  detail::expect_size(ranks, "the output of all_reduce", out.size(), n, where);
  detail::expect_device_buffers_apart(ranks.rank(), from, n, to, n, from, where);
  detail::combine_on_device<collective::all_reduce>(ranks,
                                                    detail::device_request<collective::all_reduce, T, Op>(how, n), from,
                                                    detail::message_of(n), to, detail::message_of(n), op, how, where);
}
template <device_ranks R, device_buffer InOut, class Op = sum>
  requires device_operation<Op, device_value<InOut>>
void all_reduce(R& ranks, InOut&& data, Op const& op = {}, device_options_of<R> const& how = {},
                std::source_location where = std::source_location::current()) {
  all_reduce(ranks, data, data, op, how, where);
}

template <device_ranks R, device_buffer In, device_buffer Out, class Op = sum>
  requires device_operation<Op, device_value<In const>>
void reduce(R& ranks, In const& in, Out&& out, Op const& op = {}, int root = 0, device_options_of<R> const& how = {},
            std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  std::size_t const n = in.size();
  T const* const from = device_data(in);
  detail::expect_root(ranks, root, where);
  auto* const to = ranks.rank() == root ? device_data(out) : nullptr;
  if (to != nullptr) {
    detail::expect_size(ranks, "the output of reduce", out.size(), n, where);
    detail::expect_device_buffers_apart(ranks.rank(), from, n, to, n, from, where);
  }
  detail::combine_on_device<collective::reduce>(ranks, detail::device_request<collective::reduce, T, Op>(how, n, root),
                                                from, detail::message_of(n), to, detail::message_of(n), op, how, where);
}
template <device_ranks R, device_buffer InOut, class Op = sum>
  requires device_operation<Op, device_value<InOut>>
void reduce(R& ranks, InOut&& data, Op const& op = {}, int root = 0, device_options_of<R> const& how = {},
            std::source_location where = std::source_location::current()) {
  reduce(ranks, data, data, op, root, how, where);
}

template <device_ranks R, device_buffer InOut>
void broadcast(R& ranks, InOut&& data, int root = 0, device_options_of<R> const& how = {},
               std::source_location where = std::source_location::current()) {
  using T = device_value<InOut>;
  std::size_t const n = data.size();
  layout const all = detail::message_of(n * detail::words_in<T>);
  detail::expect_root(ranks, root, where);
  T* const here = device_data(data);
  bool const gives = ranks.rank() == root;
  detail::move_on_device<collective::broadcast, T>(
      ranks, detail::device_request<collective::broadcast, T>(how, n, root), gives ? here : nullptr, all,
      gives ? nullptr : here, all, how, where);
}

template <device_ranks R, device_buffer In, device_buffer Out, class Op = sum>
  requires device_operation<Op, device_value<In const>>
void reduce_scatter(R& ranks, In const& in, Out&& out, Op const& op = {}, device_options_of<R> const& how = {},
                    std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  std::size_t const n = out.size(), all = n * static_cast<std::size_t>(ranks.size());
  T const* const from = device_data(in);
  auto* const to = device_data(out);
  bool const in_place = static_cast<void const*>(to) == from + static_cast<std::size_t>(ranks.rank()) * n;
  detail::expect_size(ranks, "the input of reduce_scatter", in.size(), all, where);
  detail::expect_device_buffers_apart(ranks.rank(), from, all, to, n, in_place ? to : nullptr, where);
  detail::combine_on_device<collective::reduce_scatter>(
      ranks, detail::device_request<collective::reduce_scatter, T, Op>(how, n), from, layout::blocks(n, ranks.size()),
      to, detail::message_of(n), op, how, where);
}
template <device_ranks R, device_buffer In, device_buffer Out, class Op = sum>
  requires device_operation<Op, device_value<In const>>
void reduce_scatter_v(R& ranks, In const& in, Out&& out, std::span<std::size_t const> counts, Op const& op = {},
                      device_options_of<R> const& how = {},
                      std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  detail::device_blocks const blocks(ranks, "reduce_scatter_v's", counts, {}, in.size(), 1, where);
  layout const given = blocks.where();
  extent const own = given.at(0, ranks.rank());
  T const* const from = device_data(in);
  auto* const to = device_data(out);
  bool const in_place = static_cast<void const*>(to) == from + own.begin;
  detail::expect_size(ranks, "the input of reduce_scatter_v", in.size(),
                      std::accumulate(counts.begin(), counts.end(), std::size_t{0}), where);
  detail::expect_size(ranks, "the output of reduce_scatter_v", out.size(), own.count, where);
  detail::expect_device_buffers_apart(ranks.rank(), from, in.size(), to, own.count, in_place ? to : nullptr, where);
  detail::combine_on_device<collective::reduce_scatter>(
      ranks, detail::ragged_device_request(detail::device_request<collective::reduce_scatter, T, Op>(how, 0), counts),
      from, given, to, detail::message_of(own.count), op, how, where);
}

template <device_ranks R, device_buffer In, device_buffer Out>
void all_gather(R& ranks, In const& in, Out&& out, device_options_of<R> const& how = {},
                std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of all_gather have different element types");
  std::size_t const n = in.size(), all = n * static_cast<std::size_t>(ranks.size()), words = n * detail::words_in<T>;
  T const* const from = device_data(in);
  T* const to = device_data(out);
  bool const in_place = from == to + static_cast<std::size_t>(ranks.rank()) * n;
  detail::expect_size(ranks, "the output of all_gather", out.size(), all, where);
  detail::expect_device_buffers_apart(ranks.rank(), from, n, to, all, in_place ? to : nullptr, where);
  detail::move_on_device<collective::all_gather, T>(ranks, detail::device_request<collective::all_gather, T>(how, n),
                                                    from, detail::message_of(words), to,
                                                    layout::blocks(words, ranks.size()), how, where);
}
template <device_ranks R, device_buffer In, device_buffer Out>
void all_gather_v(R& ranks, In const& in, Out&& out, std::span<std::size_t const> counts,
                  std::span<std::size_t const> offsets = {}, device_options_of<R> const& how = {},
                  std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of all_gather_v have different element types");
  constexpr std::size_t unit = detail::words_in<T>;
  detail::device_blocks const blocks(ranks, "all_gather_v's", counts, offsets, out.size(), unit, where);
  layout const got = blocks.where();
  extent const own = got.at(0, ranks.rank());
  T const* const from = device_data(in);
  T* const to = device_data(out);
  bool const in_place = from == to + own.begin / unit;
  detail::expect_size(ranks, "the input of all_gather_v", in.size(), own.count / unit, where);
  detail::expect_device_buffers_apart(ranks.rank(), from, in.size(), to, got.end() / unit, in_place ? to : nullptr,
                                      where);
  detail::move_on_device<collective::all_gather, T>(
      ranks, detail::ragged_device_request(detail::device_request<collective::all_gather, T>(how, 0), counts), from,
      detail::message_of(own.count), to, got, how, where);
}

template <device_ranks R, device_buffer In, device_buffer Out>
void gather(R& ranks, In const& in, Out&& out, int root = 0, device_options_of<R> const& how = {},
            std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of gather have different element types");
  std::size_t const n = in.size(), all = n * static_cast<std::size_t>(ranks.size()), words = n * detail::words_in<T>;
  detail::expect_root(ranks, root, where);
  T const* const from = device_data(in);
  T* const to = ranks.rank() == root ? device_data(out) : nullptr;
  if (to != nullptr) {
    bool const in_place = from == to + static_cast<std::size_t>(root) * n;
    detail::expect_size(ranks, "the root's output of gather", out.size(), all, where);
    detail::expect_device_buffers_apart(root, from, n, to, all, in_place ? to : nullptr, where);
  }
  detail::move_on_device<collective::gather, T>(ranks, detail::device_request<collective::gather, T>(how, n, root),
                                                from, detail::message_of(words), to,
                                                layout::blocks(words, ranks.size()), how, where);
}
template <device_ranks R, device_buffer In, device_buffer Out>
void gather_v(R& ranks, In const& in, Out&& out, std::span<std::size_t const> counts,
              std::span<std::size_t const> offsets = {}, int root = 0, device_options_of<R> const& how = {},
              std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of gather_v have different element types");
  constexpr std::size_t unit = detail::words_in<T>;
  detail::expect_root(ranks, root, where);
  T const* const from = device_data(in);
  layout const given = detail::message_of(in.size() * unit);
  request const what = detail::ragged_device_request(detail::device_request<collective::gather, T>(how, 0, root));
  if (ranks.rank() != root)
    return detail::move_on_device<collective::gather, T>(ranks, what, from, given, nullptr, given, how, where);
  detail::device_blocks const blocks(ranks, "gather_v's", counts, offsets, out.size(), unit, where);
  layout const got = blocks.where();
  extent const own = got.at(0, root);
  T* const to = device_data(out);
  bool const in_place = from == to + own.begin / unit;
  detail::expect_size(ranks, "the root's input of gather_v", in.size(), own.count / unit, where);
  detail::expect_device_buffers_apart(root, from, in.size(), to, got.end() / unit, in_place ? to : nullptr, where);
  detail::move_on_device<collective::gather, T>(ranks, what, from, given, to, got, how, where);
}

template <device_ranks R, device_buffer In, device_buffer Out>
void scatter(R& ranks, In const& in, Out&& out, int root = 0, device_options_of<R> const& how = {},
             std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of scatter have different element types");
  std::size_t const n = out.size(), all = n * static_cast<std::size_t>(ranks.size()), words = n * detail::words_in<T>;
  detail::expect_root(ranks, root, where);
  T const* const from = ranks.rank() == root ? device_data(in) : nullptr;
  T* const to = device_data(out);
  if (from != nullptr) {
    bool const in_place = to == from + static_cast<std::size_t>(root) * n;
    detail::expect_size(ranks, "the root's input of scatter", in.size(), all, where);
    detail::expect_device_buffers_apart(root, from, all, to, n, in_place ? to : nullptr, where);
  }
  detail::move_on_device<collective::scatter, T>(ranks, detail::device_request<collective::scatter, T>(how, n, root),
                                                 from, layout::blocks(words, ranks.size()), to,
                                                 detail::message_of(words), how, where);
}
template <device_ranks R, device_buffer In, device_buffer Out>
void scatter_v(R& ranks, In const& in, std::span<std::size_t const> counts, Out&& out,
               std::span<std::size_t const> offsets = {}, int root = 0, device_options_of<R> const& how = {},
               std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of scatter_v have different element types");
  constexpr std::size_t unit = detail::words_in<T>;
  detail::expect_root(ranks, root, where);
  T* const to = device_data(out);
  layout const got = detail::message_of(out.size() * unit);
  request const what = detail::ragged_device_request(detail::device_request<collective::scatter, T>(how, 0, root));
  if (ranks.rank() != root)
    return detail::move_on_device<collective::scatter, T>(ranks, what, nullptr, got, to, got, how, where);
  detail::device_blocks const blocks(ranks, "scatter_v's", counts, offsets, in.size(), unit, where);
  layout const given = blocks.where();
  extent const own = given.at(0, root);
  T const* const from = device_data(in);
  bool const in_place = to == from + own.begin / unit;
  detail::expect_size(ranks, "the root's output of scatter_v", out.size(), own.count / unit, where);
  detail::expect_device_buffers_apart(root, from, given.end() / unit, to, out.size(), in_place ? to : nullptr, where);
  detail::move_on_device<collective::scatter, T>(ranks, what, from, given, to, got, how, where);
}

template <device_ranks R, device_buffer In, device_buffer Out>
void all_to_all(R& ranks, In const& in, Out&& out, device_options_of<R> const& how = {},
                std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of all_to_all have different element types");
  std::size_t const all = in.size(), p = static_cast<std::size_t>(ranks.size()), n = all / p;
  if (all % p != 0)
    detail::refuse(ranks.rank(),
                   join({"the input of all_to_all has ", all, " elements, which ", p, " ranks cannot share equally"}),
                   "use a multiple of the number of ranks, or all_to_all_v", where);
  T const* const from = device_data(in);
  T* const to = device_data(out);
  layout const blocks = layout::blocks(n * detail::words_in<T>, ranks.size());
  detail::expect_size(ranks, "the output of all_to_all", out.size(), all, where);
  detail::expect_device_buffers_apart(ranks.rank(), from, all, to, all, from, where);
  detail::move_on_device<collective::all_to_all, T>(ranks, detail::device_request<collective::all_to_all, T>(how, n),
                                                    from, blocks, to, blocks, how, where);
}
template <device_ranks R, device_buffer In, device_buffer Out>
void all_to_all_v(R& ranks, In const& in, std::span<std::size_t const> send_counts, Out&& out,
                  std::span<std::size_t const> receive_counts, std::span<std::size_t const> send_offsets = {},
                  std::span<std::size_t const> receive_offsets = {}, device_options_of<R> const& how = {},
                  std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of all_to_all_v have different element types");
  constexpr std::size_t unit = detail::words_in<T>;
  detail::device_blocks const sent(ranks, "all_to_all_v's send", send_counts, send_offsets, in.size(), unit, where);
  detail::device_blocks const received(ranks, "all_to_all_v's receive", receive_counts, receive_offsets, out.size(),
                                       unit, where);
  T const* const from = device_data(in);
  T* const to = device_data(out);
  auto const own = static_cast<std::size_t>(ranks.rank());
  detail::expect_size(ranks, "this rank's block for itself in all_to_all_v", receive_counts[own], send_counts[own],
                      where);
  detail::expect_device_buffers_apart(ranks.rank(), from, sent.where().end() / unit, to, received.where().end() / unit,
                                      nullptr, where);
  detail::move_on_device<collective::all_to_all, T>(
      ranks, detail::ragged_device_request(detail::device_request<collective::all_to_all, T>(how, 0)), from,
      sent.where(), to, received.where(), how, where);
}

template <device_ranks R, device_buffer In, device_buffer Out, class Op = sum>
  requires device_operation<Op, device_value<In const>>
void scan(R& ranks, In const& in, Out&& out, Op const& op = {}, device_options_of<R> const& how = {},
          std::source_location where = std::source_location::current()) {
  detail::prefix_on_device<collective::scan>(ranks, in, out, op, how, where);
}
template <device_ranks R, device_buffer InOut, class Op = sum>
  requires device_operation<Op, device_value<InOut>>
void scan(R& ranks, InOut&& data, Op const& op = {}, device_options_of<R> const& how = {},
          std::source_location where = std::source_location::current()) {
  detail::prefix_on_device<collective::scan>(ranks, data, data, op, how, where);
}

template <device_ranks R, device_buffer In, device_buffer Out, class Op = sum>
  requires device_operation<Op, device_value<In const>>
void exclusive_scan(R& ranks, In const& in, Out&& out, Op const& op = {}, device_options_of<R> const& how = {},
                    std::source_location where = std::source_location::current()) {
  detail::prefix_on_device<collective::exclusive_scan>(ranks, in, out, op, how, where);
}
template <device_ranks R, device_buffer InOut, class Op = sum>
  requires device_operation<Op, device_value<InOut>>
void exclusive_scan(R& ranks, InOut&& data, Op const& op = {}, device_options_of<R> const& how = {},
                    std::source_location where = std::source_location::current()) {
  detail::prefix_on_device<collective::exclusive_scan>(ranks, data, data, op, how, where);
}

// What was given to the stream after it does not begin before all ranks have reached it.
template <device_ranks R>
void barrier(R& ranks, device_options_of<R> const& how = {},
             std::source_location where = std::source_location::current()) {
  detail::move_on_device<collective::barrier, std::uint8_t>(
      ranks, detail::device_request<collective::barrier, std::uint8_t>(how, 0), nullptr, detail::message_of(0), nullptr,
      detail::message_of(0), how, where);
}

}  // namespace tutti
