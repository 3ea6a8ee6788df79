// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The collectives that move bytes. No line of the interposer is where the program's call is, so none is named in errors.
#include "collectives.hpp"

#include "tutti/collective/all_gather.hpp"
#include "tutti/collective/all_to_all.hpp"
#include "tutti/collective/barrier.hpp"
#include "tutti/collective/broadcast.hpp"
#include "tutti/collective/gather.hpp"
#include "tutti/collective/scatter.hpp"

namespace interpose {

tutti::options const& as_long_as_it_takes() {
  static tutti::options const asked{.timeout = longest_wait()};
  return asked;
}

void barrier(communicator& comm) { tutti::barrier(comm, as_long_as_it_takes(), {}); }
void broadcast(communicator& comm, output data, int root) {
  tutti::broadcast(comm, data, root, as_long_as_it_takes(), {});
}
void gather(communicator& comm, input in, output out, int root) {
  tutti::gather(comm, in, out, root, as_long_as_it_takes(), {});
}
void gather_v(communicator& comm, input in, output out, sizes counts, sizes offsets, int root) {
  tutti::gather_v(comm, in, out, counts, offsets, root, as_long_as_it_takes(), {});
}
void scatter(communicator& comm, input in, output out, int root) {
  tutti::scatter(comm, in, out, root, as_long_as_it_takes(), {});
}
void scatter_v(communicator& comm, input in, sizes counts, sizes offsets, output out, int root) {
  tutti::scatter_v(comm, in, counts, out, offsets, root, as_long_as_it_takes(), {});
}
void all_gather(communicator& comm, input in, output out) {
  tutti::all_gather(comm, in, out, as_long_as_it_takes(), {});
}
void all_gather_v(communicator& comm, input in, output out, sizes counts, sizes offsets) {
  tutti::all_gather_v(comm, in, out, counts, offsets, as_long_as_it_takes(), {});
}
void all_to_all(communicator& comm, input in, output out) {
  tutti::all_to_all(comm, in, out, as_long_as_it_takes(), {});
}
void all_to_all_v(communicator& comm, input in, sizes sent, sizes sent_at, output out, sizes received,
                  sizes received_at) {
  tutti::all_to_all_v(comm, in, sent, out, received, sent_at, received_at, as_long_as_it_takes(), {});
}

}  // namespace interpose
