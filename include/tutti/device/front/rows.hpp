// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An all_reduce with an epilogue on rows where ranks cannot do both in one kernel: the sums, then a kernel for the rows.
#pragma once

#include <cstdint>
#include <span>

#include "tutti/device/front/call.hpp"
#include "tutti/device/kernel/row_launch.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/reduce/rows.hpp"

namespace tutti::detail {

// The call that leaves the sums in `sums`.
template <device D, class In, class Out>
device_call<D, In, In> call_for_sums(device_call<D, In, Out> const& c, In* sums) {
  device_call<D, In, In> out{.what = c.what,
                             .type = c.type,
                             .in = c.in,
                             .given = c.given,
                             .out = sums,
                             .got = c.got,
                             .how = c.how,
                             .where = c.where};
  out.how.symmetric = false;  // the sums are not in registered memory
  return out;
}

// Finishes the rows of `sums`, which may be where the results go. `unless`: a word, or null.
template <device D, class In, class Out, class How, class Epilogue>
void finish_rows(D const& on, device_call<D, In, Out> const& c, In const* sums, row_wise<How, Epilogue> const& op,
                 std::uint32_t const* unless = nullptr) {
  Out* const to[] = {c.out};
  row_wise<fused<sum>, Epilogue> const how{{}, op.length, op.epilogue};
  launch_rows(on, c.how.stream, std::span<In const* const>(&sums, 1), std::span<Out* const>(to),
              {0, c.got.at(0, 0).count / op.length}, how, unless);
}

}  // namespace tutti::detail
