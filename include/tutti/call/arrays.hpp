// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the arrays of a caller to a call that is performed: the arrays are checked as the table of collectives says.
#pragma once

#include <source_location>
#include <span>
#include <type_traits>
#include <utility>

#include "tutti/call/gapped_arrays.hpp"
#include "tutti/call/packed_arrays.hpp"
#include "tutti/call/perform.hpp"
#include "tutti/call/uneven_blocks.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/is_a.hpp"

namespace tutti::detail {

// The body of a call with an operation, or of one that moves values, for which `moving` stands in place of an operation.
template <class T, class Op>
struct body_for {
  using type = reducing<T, Op>;
  using operation = Op;
  static type of(Op const& op) { return {op}; }
};
template <class T>
struct body_for<T, moving> {
  using type = moving;
  using operation = void;
  static type of(moving) { return {}; }
};

template <class To, class From>
To* as_elements(From* data) {
  return reinterpret_cast<To*>(data);
}

// `root` does not matter where there is none. `Packing` is void, unless it takes the place of what the arrays choose. Options are
// `options`, or `options_of_parts` for arrays of several parts.
template <collective C, class Algorithm, class Packing = void, class Comm, class In, class Out, class Op, class Options>
returned_by<Comm> perform_on_arrays(Comm& comm, In const& in, Out const& out, Op const& op, int root, Options const& o,
                                    std::source_location where) {
  return noting_refusals(comm, [&]() __attribute__((always_inline)) {
    using T = typename Out::value_type;
    using body = typename body_for<T, Op>::type;
    using operation = typename body_for<T, Op>::operation;
    using element = typename body::element;
    using shape = std::conditional_t<by_block(C), block_memory<element>, array_memory<element>>;
    static_assert(!is_prefix(C) || !body::finishes,
                  "an operation with an epilogue, such as mean, has no meaning for the prefixes of a scan; use "
                  "tutti::sum and divide");
    constexpr bool one_array = has_one_array<C>;
    if constexpr (described_arrays<In, Out>)
      if (!has_gaps(in) && !has_gaps(out))
        return perform_on_arrays<C, Algorithm, never_grouped>(comm, std::span<T const>(first_elements(in)),
                                                              std::span<T>(first_elements(out)), op, root, o, where);
    auto arrays = arrays_for<C>(comm, in, out, root, C == collective::exclusive_scan);
    using memory = typename decltype(arrays)::template memory_of<shape>;
    auto const used =
        check_buffers<C, decltype(arrays)::are_compared>(comm, arrays.input(), arrays.output(), root, where);
    check_algorithm<Algorithm, C, operation>(comm, o, where);
    call<C, Algorithm, body, memory> c{
        {request_of<C, Algorithm, T, operation>(o, used.count, root), find_schedule_of<C>, o.timeout, where,
         &names_of<T, operation>},
        memory(shape{as_elements<element const>(one_array ? arrays.input().data() : used.in),
                     as_elements<element>(one_array ? arrays.output().data() : used.out), one_array || used.in_place}),
        body_for<T, Op>::of(op)};
    if constexpr (is_a<memory, gapped_memory>) arrays.describe(c.memory);
    if constexpr (found_at_run_time<Op>) c.asked.op = op.id(), c.names = &op.names();
    if constexpr (std::is_void_v<Packing>) return perform(comm, c, std::move(arrays).packing());
    else return perform(comm, c, Packing());
  });
}

// -- _v forms.

template <class Comm>
counts_and_offsets lists_for(Comm& comm, std::source_location where) {
  if constexpr (is_communicator<Comm>) {
    comm.expect_usable(where);
    return counts_and_offsets(comm.engine().counts_and_offsets);
  } else {
    return counts_and_offsets();
  }
}

template <collective C, class Algorithm, class Comm, class In, class Out, class Op>
returned_by<Comm> perform_on_blocks(Comm& comm, In const& in, block_sizes const& sent, Out const& out,
                                    block_sizes const& received, Op const& op, int root, options const& o,
                                    std::source_location where) {
  return noting_refusals(comm, [&]() __attribute__((always_inline)) {
    using T = typename Out::value_type;
    using body = typename body_for<T, Op>::type;
    using operation = typename body_for<T, Op>::operation;
    using element = typename body::element;
    if constexpr (described_arrays<In, Out>)
      if (!has_gaps(in) && !has_gaps(out))
        return perform_on_blocks<C, Algorithm>(comm, std::span<T const>(first_elements(in)), sent,
                                               std::span<T>(first_elements(out)), received, op, root, o, where);
    auto lists = lists_for(comm, where);
    auto arrays = arrays_for<C>(comm, in, out, root, true);
    using shape = ragged_memory<element>;
    using memory = typename decltype(arrays)::template memory_of<shape>;
    auto const all = check_uneven_buffers<C, decltype(arrays)::are_compared>(
        comm, arrays.input(), sent, arrays.output(), received, sizeof(T) / sizeof(element), lists, root, where);
    check_algorithm<Algorithm, C, operation>(comm, o, where);
    call<C, Algorithm, body, memory> c{
        {ragged(request_of<C, Algorithm, T, operation>(o, 0, root), known_counts<C>(sent, received)),
         find_schedule_of<C>, o.timeout, where, &names_of<T, operation>},
        memory(shape{as_elements<element const>(all.used.in), as_elements<element>(all.used.out), all.used.in_place,
                     all.given, all.got, all.sizes, std::move(lists)}),
        body_for<T, Op>::of(op)};
    if constexpr (is_a<memory, gapped_memory>) arrays.describe(c.memory);
    if constexpr (found_at_run_time<Op>) c.asked.op = op.id(), c.names = &op.names();
    return perform(comm, c, std::move(arrays).packing());
  });
}

}  // namespace tutti::detail
