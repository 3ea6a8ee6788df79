// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The collectives that only move bytes. Errors name no call site, because the interposer does not know that of the
// program.
#include "collectives.hpp"

#include <optional>
#include <string>
#include <string_view>

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

namespace {

using namespace tutti::detail;

constexpr request one_token{.what = tutti::collective::barrier, .count = 1};

call_terms announced(call_names const& what, std::size_t bytes, tutti::algorithm_id by) {
  return {{.what = tutti::collective::all_reduce,
           .algorithm = by,
           .how = tutti::protocol::staged,
           .type = name_id(what.type),
           .op = name_id(what.operation),
           .count = bytes},
          find_schedule_of<tutti::collective::all_reduce>,
          as_long_as_it_takes().timeout,
          {},
          &what};
}

// In one hop, whose messages need no peer to pass them on.
class started_announcement final : public queued_call<room_shm> {
 public:
  started_announcement(collective_queue<room_shm>& queue, engine<room_shm>& on, std::string_view type,
                       std::string_view operation, std::size_t bytes)
      : queued_call(queue, on),
        operation_(operation),
        names_{type, operation_},
        terms_(announced(names_, bytes, tutti::algorithm_id::one_shot)) {
    terms_.asked.started = true;
  }

 private:
  call_terms const& terms() const noexcept override { return terms_; }
  void begin(begun_call<room_shm> const& begun) override {
    tokens_.emplace(eager_of<tutti::collective::barrier>(engine_, begun, one_token, combines_.in_bytes(),
                                                         reinterpret_cast<std::byte const*>(token_.in),
                                                         reinterpret_cast<std::byte*>(token_.out)));
  }
  progress poll() override { return engine_.poll(*tokens_); }
  protocol_violation const& found() const noexcept override { return tokens_->found(); }

  std::string const operation_;
  call_names const names_;
  call_terms terms_;
  token_memory const token_;
  reducing<unsigned char, tutti::bit_or> const combines_{combine_tokens};
  std::optional<eager_execution<tutti::collective::barrier, room_shm>> tokens_;
};

}  // namespace

// Its messages are those of a barrier, of one byte. Both collectives have these algorithms.
void announce(communicator& comm, call_names const& what, std::size_t bytes) {
  static constexpr int most_in_one_hop = 16;
  auto& on = comm.engine();
  auto const terms = announced(
      what, bytes,
      comm.size() > most_in_one_hop ? tutti::algorithm_id::recursive_doubling : tutti::algorithm_id::one_shot);
  token_memory const token;
  reducing<unsigned char, tutti::bit_or> const combines{combine_tokens};
  try {
    finish_started(on);
    begun_call begun(on, terms);
    carry_out<tutti::collective::barrier>(on, begun, one_token, combines.in_bytes(), token);
    begun.finish();
  } catch (...) {
    on.stop_in_flight_if_faulty();
    throw;
  }
}

tutti::work start_announcing(communicator& comm, call_names const& what, std::size_t bytes) {
  auto& on = comm.engine();
  auto& queue = collective_queue<room_shm>::of(on);
  tutti::persistent out(make_call<started_announcement>(queue, on, what.type, what.operation, bytes),
                        collective_queue<room_shm>::start, on.reference(), on.rank());
  out.start({});
  return out;
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
