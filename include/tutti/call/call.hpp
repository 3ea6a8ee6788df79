// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A collective as called by one rank: request, memory, operation, counts, options and call site. A blocking call is
// driven to completion (call/perform.hpp), one on async(comm) is queued, and one on prepared(comm) is kept
// (started/held_call.hpp).
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string_view>
#include <type_traits>

#include "tutti/call/planning.hpp"
#include "tutti/call/uneven_blocks.hpp"
#include "tutti/execute/body.hpp"
#include "tutti/execute/surfaces.hpp"

namespace tutti::detail {

// The type and operation of a call, as errors and records print them.
struct call_names {
  std::string_view type, operation;
};
template <class T, class Op = void>
inline constexpr call_names names_of{type_name<T>(), [] {
                                       if constexpr (std::is_void_v<Op>) return std::string_view{};
                                       else return name_of<Op>();
                                     }()};

// An operation that is found at run time, so that its type tells ranks and readers of errors too little.
template <class Op>
concept found_at_run_time = requires(Op const& op) {
  { op.id() } -> std::same_as<std::uint32_t>;  // not 0
  { op.names() } -> std::same_as<call_names const&>;
};

// The part of a call that does not depend on its memory and operation.
struct call_terms {
  request asked;                     // the values that all ranks must pass alike, and the caller's choice of algorithm
  schedule_finder& schedules;        // at least those of asked.what
  std::chrono::nanoseconds timeout;  // 0: the communicator's
  std::source_location where;
  call_names const* names;
};

// Adds what all ranks must know of the operation.
template <class T, class Op>
void set_operation(request& of) {
  of.commutative = is_commutative<Op>;
  of.at_once = combines_at_once<Op>;
  of.prepares = reducing<T, Op>::prepares;
  of.wide = !std::is_same_v<accumulator_for<Op, T>, T>;
  of.op = type_id<Op>();
}

// `count`: elements T of the message, or of a block. Op is void if nothing is combined.
template <collective C, class Algorithm, class T, class Op = void>
request request_of(options const& o, std::uint64_t count, int root = 0) {
  request out{.what = C,
              .algorithm = id_of<Algorithm>(o),
              .how = o.protocol,
              .root = root,
              .type = type_id<T>(),
              .element_bytes = sizeof(T),
              .count = count,
              .unlisted = unlisted_or_none<Algorithm, C>()};
  if constexpr (!std::is_void_v<Op>) set_operation<T, Op>(out);
  return out;
}

// Options of a call whose array consists of parts, with a hash of their sizes, which must be the same on all ranks.
struct options_of_parts : options {
  std::uint32_t sizes;
};
template <collective C, class Algorithm, class T, class Op = void>
request request_of(options_of_parts const& o, std::uint64_t count, int root = 0) {
  request out = request_of<C, Algorithm, T, Op>(static_cast<options const&>(o), count, root);
  out.sizes = o.sizes;
  return out;
}

// -- The memory of a call, in three shapes. lay_out() describes it to a schedule, in units of U: T, or bytes.

// One message, whose chunks are arbitrary parts of it. `out` is null if this rank gets no result.
template <class T>
struct array_memory {
  static constexpr bool ragged = false;
  T const* in;
  T* out;
  bool in_place;

  static std::size_t elements(request const& r) { return r.bytes() / sizeof(T); }
  template <class U>
  void lay_out(surfaces<U>& s, request const&, int, int) const {
    s.input.data = reinterpret_cast<U const*>(in);
    s.output.data = reinterpret_cast<U*>(out);
    s.in_place = in_place;
  }
  template <class Use>
  void list_buffers(Use& use, request const& r, int rank, int) const {
    if (r.what != collective::broadcast || rank == r.root) use.reads(in, r.bytes());
    if (r.what != collective::broadcast || rank != r.root) use.writes(out, r.bytes());
  }
};

// A block for each rank, all of the same size. `in` and `out` are this rank's own block, or the blocks of all.
template <class T>
struct block_memory {
  static constexpr bool ragged = false;
  T const* in;
  T* out;
  bool in_place;

  static std::size_t elements(request const& r) { return r.bytes() / sizeof(T); }
  template <class U>
  void lay_out(surfaces<U>& s, request const& r, int rank, int ranks) const {
    layout const blocks = layout::blocks(r.bytes() / sizeof(U), ranks), own = blocks.only(rank);
    s.input = {reinterpret_cast<U const*>(in), deals(r.what) ? blocks : own};
    s.output = {reinterpret_cast<U*>(out), collects(r.what) ? blocks : own};
    s.scratch = {nullptr, blocks};
    s.in_place = in_place;
  }
  template <class Use>
  void list_buffers(Use& use, request const& r, int, int ranks) const {
    std::size_t const all = r.bytes() * static_cast<std::size_t>(ranks);
    use.reads(in, deals(r.what) ? all : r.bytes());
    use.writes(out, collects(r.what) ? all : r.bytes());
  }
};

// Blocks of different sizes.
template <class T>
struct ragged_memory {
  static constexpr bool ragged = true;
  T const* in;
  T* out;
  bool in_place;
  layout given, got, sizes;  // of the input, of the output, and of blocks that are only passed on
  counts_and_offsets lists;  // the layouts refer to these

  template <class U>
  void lay_out(surfaces<U>& s, request const&, int, int) const {
    constexpr std::size_t unit = sizeof(T) / sizeof(U);
    s.input = {reinterpret_cast<U const*>(in), given.times(unit)};
    s.output = {reinterpret_cast<U*>(out), got.times(unit)};
    s.scratch = {nullptr, sizes.times(unit)};
    s.in_place = in_place;
  }
  template <class Use>
  void list_buffers(Use& use, request const&, int, int) const {
    if (in != nullptr) given.for_each_extent([&](extent e) { use.reads(in + e.begin, e.count * sizeof(T)); });
    if (out != nullptr) got.for_each_extent([&](extent e) { use.writes(out + e.begin, e.count * sizeof(T)); });
  }
};

// -- The call.

template <collective C, class Algorithm, class Body, class Memory>
struct call : call_terms {
  static constexpr collective what = C;
  using algorithm = Algorithm;
  using body_type = Body;
  using element = typename Body::element;

  Memory memory;
  Body body;

  // The call on a communicator of one rank.
  void run_alone() {
    if constexpr (C != collective::barrier && C != collective::exclusive_scan) {
      auto const* in = reinterpret_cast<std::byte const*>(memory.in);
      auto* out = reinterpret_cast<std::byte*>(memory.out);
      std::size_t bytes = asked.bytes();
      if constexpr (Memory::ragged) {
        extent const block = memory.given.at(0, 0);
        in += block.begin * sizeof(element), out += memory.got.at(0, 0).begin * sizeof(element);
        bytes = block.count * sizeof(element);
      }
      body.in_bytes()(&in, 1, &out, 1, bytes, {.prepare = 0, .finish = 1});
    }
  }
};

template <collective C, class Algorithm, class T, class Op, class Memory = array_memory<T>>
using reduction = call<C, Algorithm, reducing<T, Op>, Memory>;

}  // namespace tutti::detail
