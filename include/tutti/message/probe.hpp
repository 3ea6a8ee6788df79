// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// probe and iprobe: what a receive would get, before it is called.
#pragma once

#include <cstddef>
#include <optional>
#include <source_location>
#include <span>

#include "tutti/call/accepted.hpp"
#include "tutti/message/perform.hpp"

namespace tutti {

// A message that waits to be received. For no_rank: no bytes, from no_rank.
struct probed {
  int source;
  int tag;
  std::size_t bytes;

  // Its elements, if they are T; a receive of another type than was sent is refused, with both names.
  template <class T>
  std::size_t count() const noexcept {
    return bytes / sizeof(T);
  }

  friend bool operator==(probed const&, probed const&) = default;
};

namespace detail {

template <class Comm>
transfer probe_for(Comm& comm, char const* what, int from, int tag, options const& o, std::source_location where) {
  return noting_refusals(comm, [&]() {
    check_message(comm, what, std::span<std::byte const>{}, from, tag, true, where);
    check_options(comm, what, o, where);
    return transfer_of<std::byte>(transfer::probe, from, tag);
  });
}
inline probed probed_by(transfer const& t) { return {t.source, t.source_tag, t.got}; }

}  // namespace detail

// Waits for a message from rank `from`, or any_source, with this tag, or any_tag, and returns its sender, tag and size. The
// message stays: the next receive that matches it gets it, in any thread, so threads that probe for the same messages must
// agree among themselves. Messages for which a receive has been started are not found.
//
// Throws    error: bad_argument before anything is done; timeout, rank_lost, rank_left, on all ranks of the communicator
// Source    MPI-4.1, 3.8.1
//
//   tutti::probed const next = tutti::probe(comm, tutti::any_source, 3);
//   std::vector<double> data(next.count<double>());
//   tutti::recv(comm, data, next.source, next.tag);
template <class Comm>
  requires detail::host_ranks<Comm>
[[nodiscard]] probed probe(Comm&& comm, int from, int tag = 0, options const& o = {},
                           std::source_location where = std::source_location::current()) {
  if constexpr (detail::expect_blocking<Comm>()) {
    detail::transfer t = detail::probe_for(comm, "probe", from, tag, o, where);
    if (from != no_rank) detail::with_exchange(comm, where, [&](auto& all) { all.run({&t, 1}, o.timeout, where); });
    return detail::probed_by(t);
  } else {
    return {};
  }
}

// Looks once: empty if no such message has arrived. Messages make progress meanwhile, so it may be called until there is
// one; a lost rank is noticed, but there is no timeout. Everything else as probe.
//
//   if (auto const next = tutti::iprobe(comm, tutti::any_source, 3)) receive_from(next->source);
template <class Comm>
  requires detail::host_ranks<Comm>
[[nodiscard]] std::optional<probed> iprobe(Comm&& comm, int from, int tag = 0,
                                           std::source_location where = std::source_location::current()) {
  if constexpr (detail::expect_blocking<Comm>()) {
    detail::transfer t = detail::probe_for(comm, "iprobe", from, tag, {}, where);
    if (from != no_rank)
      detail::with_exchange(comm, where, [&](auto& all) {
        all.look_for(t, where);
        all.count_test(t.ended ? detail::progress::moved : detail::progress::stuck);
      });
    if (!t.ended) return {};
    return detail::probed_by(t);
  } else {
    return {};
  }
}

}  // namespace tutti
