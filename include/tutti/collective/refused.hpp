// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls whose arguments fit no collective, such as those of MPI and NCCL with pointers and counts, are refused with a sentence
// in place of a list of overloads.
#pragma once

#include "tutti/call/refused.hpp"

namespace tutti {

#define TUTTI_REFUSED(collective)                                                                        \
  template <class T = void>                                                                              \
  detail::refused_call<T> collective(detail::any_argument<true> = {}, detail::any_argument<false> = {},  \
                                     detail::any_argument<false> = {}, detail::any_argument<false> = {}, \
                                     detail::any_argument<false> = {}, detail::any_argument<false> = {}, \
                                     detail::any_argument<false> = {}, detail::any_argument<false> = {}, \
                                     detail::any_argument<false> = {}, detail::any_argument<false> = {});

TUTTI_REFUSED(all_reduce)
TUTTI_REFUSED(reduce)
TUTTI_REFUSED(broadcast)
TUTTI_REFUSED(reduce_scatter)
TUTTI_REFUSED(reduce_scatter_v)
TUTTI_REFUSED(all_gather)
TUTTI_REFUSED(all_gather_v)
TUTTI_REFUSED(gather)
TUTTI_REFUSED(gather_v)
TUTTI_REFUSED(scatter)
TUTTI_REFUSED(scatter_v)
TUTTI_REFUSED(all_to_all)
TUTTI_REFUSED(all_to_all_v)
TUTTI_REFUSED(scan)
TUTTI_REFUSED(exclusive_scan)
TUTTI_REFUSED(barrier)
TUTTI_REFUSED(send)
TUTTI_REFUSED(recv)
TUTTI_REFUSED(send_recv)
TUTTI_REFUSED(isend)
TUTTI_REFUSED(irecv)
#undef TUTTI_REFUSED

}  // namespace tutti
