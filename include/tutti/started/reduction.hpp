// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the collectives that combine values share.
#pragma once

#include <cstddef>
#include <source_location>

#include "tutti/started/asynchronous.hpp"

namespace tutti::detail {

template <collective C, class Algorithm, class T, class Op>
request reduction_request(options const& o, std::uint64_t count, int root = 0) {
  return {.what = C,
          .algorithm = id_of<Algorithm>(o),
          .how = o.protocol,
          .commutative = is_commutative<Op>,
          .prepares = reducing<T, Op>::prepares,
          .wide = !std::is_same_v<accumulator_for<Op, T>, T>,
          .root = root,
          .type = type_id<T>(),
          .op = type_id<Op>(),
          .element_bytes = sizeof(T),
          .count = count,
          .unlisted = unlisted_or_none<Algorithm, C>()};
}

// The result of one rank alone: its contribution, through the operation's prologue and epilogue.
template <class T, class Op>
void reduce_alone(T const* in, T* out, std::size_t count, Op const& op) {
  combine(one_thread{}, &in, 1, &out, 1, count, op, {.prepare = 0, .finish = 1});
}

// all_reduce, reduce, scan: `count` elements of one message. `out` is null where this rank gets nothing.
template <collective C, class Algorithm, class Comm, class T, class Op>
returned_by<Comm> reduce_message(Comm& comm, T const* in, T* out, std::size_t count, Op const& op, int root,
                                 options const& o, std::source_location where) {
  check_algorithm<Algorithm, C, Op>(comm, o, where);
  if constexpr (C == collective::all_reduce && coalesces<Comm, Op>) {
    return comm.template coalesce<Algorithm>(in, out, count, op, o, where);
  } else {
    auto const used = memory_of(C, "", [=](auto& use) {
      use.reads(in, count * sizeof(T));
      use.writes(out, count * sizeof(T));
    });
    return call_on<Algorithm>(
        comm, o, where, used,
        [=](auto& ranks, Op const& kept) {
          request const r = reduction_request<C, Algorithm, T, Op>(o, count, root);
          auto call = open(ranks, r, o, type_name<T>(), name_of<Op>(), where);
          if (call.plan().how == protocol::packet)
            return execute_packets<C>(ranks.engine(), call, r, reducing<T, Op>{kept}, in, out);
          surfaces<T> memory{.input = {in}, .output = {out}, .scratch = {}, .in_place = in == out};
          execute<Algorithm, C>(ranks.engine(), call, r, reducing<T, Op>{kept}, memory, count);
        },
        op);
  }
}

}  // namespace tutti::detail
