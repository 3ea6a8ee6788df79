// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the arguments of a collective on device memory, among ranks that pass a buffer each, to a checked device_call.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string_view>
#include <type_traits>

#include "tutti/algorithm/collective.hpp"
#include "tutti/call/arguments.hpp"
#include "tutti/call/check_arguments.hpp"
#include "tutti/core/is_a.hpp"
#include "tutti/core/ranges.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/type_name.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/kernel/for_device.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/reduce/complex.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/reduce/rows.hpp"
#include "tutti/reduce/wire.hpp"

namespace tutti::detail {

// Ranks that carry out a checked call: `combine` with an operation, `move` in words that stand for elements of any
// type. They own everything that is kept from call to call.
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
concept device_operation =
    is_a<Op, fused> || is_a<Op, on_wire> || is_row_wise<Op> || std::is_function_v<Op> || operation<Op, T>;

// An operation with nothing before or after it, and elements that travel as they are.
template <class Op>
inline constexpr bool is_bare_operation = !is_a<Op, fused> && !is_a<Op, on_wire> && !is_row_wise<Op>;

template <device_ranks R>
using device_options_of = device_options<typename R::device_type>;

template <class Op>
inline constexpr bool commutes_on_device = is_commutative<Op>;
template <class Op, class Before, class After>
inline constexpr bool commutes_on_device<fused<Op, Before, After>> = is_commutative<Op>;
template <class Wire, class How>
inline constexpr bool commutes_on_device<on_wire<Wire, How>> = commutes_on_device<How>;
template <class How, class Epilogue>
inline constexpr bool commutes_on_device<row_wise<How, Epilogue>> = commutes_on_device<How>;

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

template <device D>
void expect_time(int rank, device_options<D> const& o, std::source_location where) {
  if (o.timeout.count() < 0)
    refuse(rank, "device_options::timeout is negative", "pass 0 for TUTTI_TIMEOUT, or a positive time", where);
}

[[noreturn, gnu::cold]] inline void refuse_arrays_in_parts(int rank, std::source_location where) {
  refuse(rank,
         "two_shot cannot update the arrays of an epilogue, because each rank combines only a part of the message",
         "use one_shot, or with_shards, whose arrays hold that part", where);
}
[[noreturn, gnu::cold]] inline void refuse_shards_in_whole(int rank, std::source_location where) {
  refuse(rank, "one_shot cannot update arrays in shards, because each rank combines the whole message",
         "leave the algorithm automatic, or use with_arrays", where);
}

// A message has whole rows, and all ranks mean rows of one length.
template <class Op>
void expect_whole_rows(Op const&, int, std::uint64_t, std::source_location) {}
template <class How, class Epilogue>
void expect_whole_rows(row_wise<How, Epilogue> const& op, int rank, std::uint64_t count, std::source_location where) {
  if (op.length == 0 || count % op.length != 0)
    refuse(rank, join({"a message of ", count, " elements has no whole rows of ", op.length}),
           "pass whole rows, and their length to by_rows", where);
}
// Takes the place of the sizes in a request, so ranks that pass different row lengths get `mismatch`.
template <class Op>
std::uint32_t row_length(Op const&) {
  return 0;
}
template <class How, class Epilogue>
std::uint32_t row_length(row_wise<How, Epilogue> const& op) {
  return static_cast<std::uint32_t>(op.length);
}

inline layout message_of(std::size_t count) { return layout::whole(count, 1, 1, 1); }
inline layout message_or_blocks(bool blocks, std::size_t count, int ranks) {
  return blocks ? layout::blocks(count, ranks) : message_of(count);
}

template <class T>
word_of<T> const* words_at(T const* data) {
  return reinterpret_cast<word_of<T> const*>(data);
}
template <class T>
word_of<T>* words_at(T* data) {
  return reinterpret_cast<word_of<T>*>(data);
}

// Shows the host's part of a call to a profiler, which sees the kernels by itself.
inline shown_range show_call(request const& r, std::string_view type) {
  return show([&] { return join({name(r.what), " of ", r.count, " ", type, " on a device"}); }, r.bytes());
}

// The layouts are in words.
template <class Algorithm, collective C, class T, device_ranks R>
void hand_over_move(R& ranks, request const& what, call_buffers<T, T> const& used, layout const& given,
                    layout const& got, device_options_of<R> const& how, std::source_location where) {
  using call = device_call<typename R::device_type, word_of<T>, word_of<T>>;
  expect_time(ranks.rank(), how, where);
  shown_range const shown = show_call(what, type_name<T>());
  ranks.template move<Algorithm, C>(call{.what = what,
                                         .type = type_name<T>(),
                                         .in = words_at(used.in),
                                         .given = given,
                                         .out = words_at(used.out),
                                         .got = got,
                                         .how = how,
                                         .where = where});
}
template <class Algorithm, collective C, class In, class Out, device_ranks R, class Op>
void hand_over_reduction(R& ranks, request const& what, call_buffers<In, Out> const& used, layout const& given,
                         layout const& got, Op const& op, device_options_of<R> const& how, std::source_location where) {
  static_assert(
      C == collective::all_reduce || !has_shards<Op>,
      "with_shards is for all_reduce; in other reductions, with_arrays takes the elements of the rank's result");
  static_assert(C == collective::all_reduce || !is_a<Op, on_wire>, "only all_reduce takes a wire type");
  static_assert(C == collective::all_reduce || !is_row_wise<Op>, "only all_reduce takes an epilogue on rows");
  using call = device_call<typename R::device_type, device_form<Op, In>, device_form<Op, Out>>;
  expect_time(ranks.rank(), how, where);
  shown_range const shown = show_call(what, type_name<In>());
  ranks.template combine<Algorithm, C>(call{.what = what,
                                            .type = type_name<In>(),
                                            .in = to_device_form<Op>(used.in),
                                            .given = given,
                                            .out = to_device_form<Op>(used.out),
                                            .got = got,
                                            .how = how,
                                            .where = where},
                                       op);
}

template <class Buffer>
auto elements_of(Buffer& buffer) {
  static_assert(!std::is_const_v<std::remove_pointer_t<decltype(device_data(buffer))>>,
                "the output is const; pass an array of device memory that can be written to");
  return std::span(device_data(buffer), buffer.size());
}
template <class Buffer>
std::span<device_value<Buffer const> const> inputs_of(Buffer const& buffer) {
  return {device_data(buffer), static_cast<std::size_t>(buffer.size())};
}

// A collective that moves values, whose blocks are all of one size.
template <class Algorithm, collective C, device_ranks R, class In, class Out>
void move_on_device(R& ranks, In const& in, Out& out, int root, device_options_of<R> const& how,
                    std::source_location where) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of a call have different element types");
  auto const used = check_buffers<C>(ranks, inputs_of(in), elements_of(out), root, where);
  std::size_t const words = used.count * words_in<T>;
  hand_over_move<Algorithm, C>(ranks, device_request<C, T>(how, used.count, root), used,
                               message_or_blocks(deals(C), words, ranks.size()),
                               message_or_blocks(collects(C), words, ranks.size()), how, where);
}

// A reduction whose blocks, if it has any, are all of one size; `sizes` is a hash of those of the arrays that share the call.
template <class Algorithm, collective C, device_ranks R, class In, class Out, class Op>
void reduce_on_device(R& ranks, In const& in, Out& out, Op const& op, int root, device_options_of<R> const& how,
                      std::source_location where, std::uint32_t sizes = 0) {
  using T = device_value<In const>;
  expect_usable_on_devices<Op, T, device_value<Out>>();
  static_assert(
      !is_prefix(C) || !finishes_result<Op, T>,
      "an operation with an epilogue, such as mean, has no meaning for the prefixes of a scan; use tutti::sum "
      "and divide");
  auto const used = check_buffers<C>(ranks, inputs_of(in), elements_of(out), root, where);
  request what = device_request<C, T, Op>(how, used.count, root);
  expect_whole_rows(op, ranks.rank(), used.count, where);
  what.sizes = is_row_wise<Op> ? row_length(op) : sizes;
  hand_over_reduction<Algorithm, C>(ranks, what, used, message_or_blocks(deals(C), used.count, ranks.size()),
                                    message_or_blocks(collects(C), used.count, ranks.size()), op, how, where);
}

}  // namespace tutti::detail
