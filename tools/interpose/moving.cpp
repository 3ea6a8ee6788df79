// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The collectives that only move bytes. Errors name no call site, because the interposer does not know that of the
// program.
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

// Its messages are those of a barrier, of one byte. Both collectives have these algorithms.
void announce(communicator& comm, tutti::detail::call_names const& what, std::size_t bytes) {
  using namespace tutti::detail;
  static constexpr int most_in_one_hop = 16;
  auto& on = comm.engine();
  call_terms const announced{{.what = tutti::collective::all_reduce,
                              .algorithm = comm.size() > most_in_one_hop ? tutti::algorithm_id::recursive_doubling
                                                                         : tutti::algorithm_id::one_shot,
                              .how = tutti::protocol::staged,
                              .type = name_id(what.type),
                              .op = name_id(what.operation),
                              .count = bytes},
                             find_schedule_of<tutti::collective::all_reduce>,
                             as_long_as_it_takes().timeout,
                             {},
                             &what};
  token_memory const token;
  reducing<unsigned char, tutti::bit_or> const combines{combine_tokens};
  try {
    finish_started(on);
    begun_call begun(on, announced);
    carry_out<tutti::collective::barrier>(on, begun, {.what = tutti::collective::barrier, .count = 1},
                                          combines.in_bytes(), token);
    begun.finish();
  } catch (...) {
    on.stop_in_flight_if_faulty();
    throw;
  }
}

template <class Comm>
returned<Comm> barrier(Comm& comm) {
  return tutti::barrier(comm, as_long_as_it_takes(), {});
}
template <class Comm>
returned<Comm> broadcast(Comm& comm, output data, int root) {
  return tutti::broadcast(comm, data, root, as_long_as_it_takes(), {});
}
template <class Comm>
returned<Comm> gather(Comm& comm, input in, output out, int root) {
  return tutti::gather(comm, in, out, root, as_long_as_it_takes(), {});
}
template <class Comm>
returned<Comm> gather_v(Comm& comm, input in, output out, sizes counts, sizes offsets, int root) {
  return tutti::gather_v(comm, in, out, counts, offsets, root, as_long_as_it_takes(), {});
}
template <class Comm>
returned<Comm> scatter(Comm& comm, input in, output out, int root) {
  return tutti::scatter(comm, in, out, root, as_long_as_it_takes(), {});
}
template <class Comm>
returned<Comm> scatter_v(Comm& comm, input in, sizes counts, output out, sizes offsets, int root) {
  return tutti::scatter_v(comm, in, counts, out, offsets, root, as_long_as_it_takes(), {});
}
template <class Comm>
returned<Comm> all_gather(Comm& comm, input in, output out) {
  return tutti::all_gather(comm, in, out, as_long_as_it_takes(), {});
}
template <class Comm>
returned<Comm> all_gather_v(Comm& comm, input in, output out, sizes counts, sizes offsets) {
  return tutti::all_gather_v(comm, in, out, counts, offsets, as_long_as_it_takes(), {});
}
template <class Comm>
returned<Comm> all_to_all(Comm& comm, input in, output out) {
  return tutti::all_to_all(comm, in, out, as_long_as_it_takes(), {});
}
template <class Comm>
returned<Comm> all_to_all_v(Comm& comm, input in, sizes sent, output out, sizes received, sizes sent_at,
                            sizes received_at) {
  return tutti::all_to_all_v(comm, in, sent, out, received, sent_at, received_at, as_long_as_it_takes(), {});
}

#define INTERPOSE_MOVING(Comm)                                                \
  template returned<Comm> barrier(Comm&);                                     \
  template returned<Comm> broadcast(Comm&, output, int);                      \
  template returned<Comm> gather(Comm&, input, output, int);                  \
  template returned<Comm> gather_v(Comm&, input, output, sizes, sizes, int);  \
  template returned<Comm> scatter(Comm&, input, output, int);                 \
  template returned<Comm> scatter_v(Comm&, input, sizes, output, sizes, int); \
  template returned<Comm> all_gather(Comm&, input, output);                   \
  template returned<Comm> all_gather_v(Comm&, input, output, sizes, sizes);   \
  template returned<Comm> all_to_all(Comm&, input, output);                   \
  template returned<Comm> all_to_all_v(Comm&, input, sizes, output, sizes, sizes, sizes)
INTERPOSE_MOVING(communicator);
INTERPOSE_MOVING(asynchronous);

}  // namespace interpose
