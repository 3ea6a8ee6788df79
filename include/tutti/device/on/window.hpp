// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The window of the ranks that `on` makes.
#pragma once

#include <cstddef>
#include <source_location>

#include "tutti/call/communicator.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/api/ipc_window.hpp"
#include "tutti/device/on/cuda_ranks.hpp"
#include "tutti/reduce/types.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti {

// Opens a window among ranks on the path `ipc`, as open_window does for a cuda_ipc. Its memory lives as long as the ranks. Its
// wait() waits for their stream, unless it names another.
//
// Throws error, at all ranks: bad_argument, if the ranks took another path; what open_window of a cuda_ipc throws.
//
//   auto ranks = tutti::on(comm, gpu, {.stream = stream});
//   auto shared = tutti::open_window<float>(ranks, 1000);
//   tutti::launch_together(gpu, stream, 1, 256, kernel, shared.on_device());
//   shared.wait();
template <element T, class D, transport Transport>
[[nodiscard]] ipc_window<T, D, Transport> open_window(cuda_ranks<D, Transport>& ranks, std::size_t size,
                                                      window_options const& o = {},
                                                      std::source_location where = std::source_location::current()) {
  cuda_ipc<D, Transport>* const near = ranks.near();
  if (near == nullptr)
    detail::refuse(ranks.rank(),
                   detail::join({"a window was opened among ranks that do not all read each other's memory, because ",
                                 ranks.why_not_near()}),
                   "open it among ranks of one node whose devices can read each other's memory, or use collectives and "
                   "messages of the host",
                   where);
  return {*near, size, o, where, ranks.with_stream({}).stream};
}

}  // namespace tutti
