// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls whose arguments fit no collective, such as those of MPI and NCCL with pointers and counts, are refused with a sentence
// in place of a list of overloads.
#pragma once

#include "tutti/call/any_argument.hpp"

namespace tutti {

// Only `...` takes a list in braces that is no list of options, such as one with a misspelt name. Of functions with more and
// fewer parameters before it, that with the most is chosen.
#define TUTTI_REFUSED(call, parameters, possible)                                                                   \
  namespace detail {                                                                                                \
  struct form_of_##call {                                                                                           \
    template <class T>                                                                                              \
    static void refuse() {                                                                                          \
      static_assert(never<T>, "no form of " #call " takes these arguments; it is " #call "(communicator" parameters \
                              ", options), where an array knows its type and size (part of one is "                 \
                              "std::span(first, count)), and options are any of " possible);                        \
    }                                                                                                               \
  };                                                                                                                \
  }                                                                                                                 \
  template <class Algorithm = automatic>                                                                            \
  detail::refused_call call() {                                                                                     \
    detail::form_of_##call::template refuse<Algorithm>();                                                           \
    throw; /* this is never compiled */                                                                             \
  }                                                                                                                 \
  template <class Algorithm = automatic>                                                                            \
  detail::refused_call call(detail::only_argument<detail::form_of_##call>, ...);                                    \
  template <class Algorithm = automatic>                                                                            \
  detail::refused_call call(detail::communicator_argument, detail::last_argument<detail::form_of_##call>, ...);     \
  template <class Algorithm = automatic>                                                                            \
  detail::refused_call call(detail::communicator_argument, detail::any_argument<>,                                  \
                            detail::last_argument<detail::form_of_##call>, ...);                                    \
  template <class Algorithm = automatic>                                                                            \
  detail::refused_call call(detail::communicator_argument, detail::any_argument<>, detail::any_argument<>,          \
                            detail::last_argument<detail::form_of_##call>, ...);                                    \
  template <class Algorithm = automatic>                                                                            \
  detail::refused_call call(detail::communicator_argument, detail::any_argument<>, detail::any_argument<>,          \
                            detail::any_argument<>, detail::last_argument<detail::form_of_##call>, ...);            \
  template <class Algorithm = automatic>                                                                            \
  detail::refused_call call(detail::communicator_argument, detail::any_argument<>, detail::any_argument<>,          \
                            detail::any_argument<>, detail::any_argument<>,                                         \
                            detail::last_argument<detail::form_of_##call>, ...);                                    \
  template <auto Algorithm, class... Arguments>                                                                     \
  detail::refused_call call(detail::argument_of_value, Arguments&&...);

#define TUTTI_OPTIONS "{.algorithm = tutti::algorithm_id::ring, .protocol = tutti::protocol::pull, .timeout = 5s}"

TUTTI_REFUSED(all_reduce, ", input, output, operation", TUTTI_OPTIONS)
TUTTI_REFUSED(reduce, ", input, output, operation, root", TUTTI_OPTIONS)
TUTTI_REFUSED(broadcast, ", array, root", TUTTI_OPTIONS)
TUTTI_REFUSED(reduce_scatter, ", input, output, operation", TUTTI_OPTIONS)
TUTTI_REFUSED(reduce_scatter_v, ", input [, output], counts, operation", TUTTI_OPTIONS)
TUTTI_REFUSED(all_gather, ", input, output", TUTTI_OPTIONS)
TUTTI_REFUSED(all_gather_v, ", input [, output, counts, offsets or {}]", TUTTI_OPTIONS)
TUTTI_REFUSED(gather, ", input, output, root", TUTTI_OPTIONS)
TUTTI_REFUSED(gather_v, ", input [, output, counts, offsets or {}], root", TUTTI_OPTIONS)
TUTTI_REFUSED(scatter, ", input, output, root", TUTTI_OPTIONS)
TUTTI_REFUSED(scatter_v, ", input, counts [, output, offsets or {}], root", TUTTI_OPTIONS)
TUTTI_REFUSED(all_to_all, ", input, output", TUTTI_OPTIONS)
TUTTI_REFUSED(all_to_all_v,
              ", input, send counts [, output, receive counts, send offsets or {}, receive offsets or {}]",
              TUTTI_OPTIONS)
TUTTI_REFUSED(scan, ", input, output, operation", TUTTI_OPTIONS)
TUTTI_REFUSED(exclusive_scan, ", input, output, operation", TUTTI_OPTIONS)
TUTTI_REFUSED(barrier, "", TUTTI_OPTIONS)
TUTTI_REFUSED(send, ", array, rank, tag", "{.timeout = 5s}")
TUTTI_REFUSED(recv, ", array, rank, tag, options) or, for a single value, recv<type>(communicator, rank, tag",
              "{.timeout = 5s}")
TUTTI_REFUSED(send_recv, ", input, rank, output, rank, tag", "{.timeout = 5s}")
TUTTI_REFUSED(isend, ", array, rank, tag", "{.timeout = 5s}")
TUTTI_REFUSED(irecv, ", array, rank, tag", "{.timeout = 5s}")
#undef TUTTI_OPTIONS
#undef TUTTI_REFUSED

}  // namespace tutti
