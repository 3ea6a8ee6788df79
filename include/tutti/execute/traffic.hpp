// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Moves the slices of a call: through slots, or as references to memory that the receiver reads or fetches.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "tutti/algorithm/cursor.hpp"
#include "tutti/core/config.hpp"
#include "tutti/execute/protocol_violation.hpp"
#include "tutti/execute/references.hpp"
#include "tutti/transport/arrival.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/segment.hpp"
#include "tutti/transport/store_gauge.hpp"

namespace tutti::detail {

// How the messages of a call travel where they are not staged. All ranks agree on `pulls` and `slice`, which decide which messages there
// are.
struct access {
  bool refers = false;           // a receiver reads what it can address in place
  bool pulls = false;            // and fetches what it cannot; then `refers` too
  bool shows_input = false;      // peers can read all of the input in place, so one message refers to a run of slices
  bool shows_output = false;     // the same for the output
  std::size_t slice = 0;         // bytes of a message that are in flight at once
  std::byte* fetched = nullptr;  // room for a slice of every peer, where values are combined
  bool streams = false;          // the output is too large to stay in a cache
};

// The channels of a call, which carry elements. Nothing here throws: a violation is left for the caller to report.
template <carries_slices Transport, class T>
class traffic {
 public:
  // A slice that has arrived.
  struct view {
    T const* data;
    bool foreign;  // in the peer's process: to be fetched
    bool in_run;   // its message holds the other slices of its run too
  };

  // Lists of what a step receives and combines at once.
  struct fan {
    TUTTI_HOST_DEVICE fan() noexcept {}  // nothing is written before it is needed

    view arrived[max_peers<Transport>];
    T* claimed[max_peers<Transport>];
    T const* sources[max_peers<Transport>];
    T* destinations[max_peers<Transport>];
  };

  // `references` is for transports that map memory.
  TUTTI_CALLS_ANY
  TUTTI_HOST_DEVICE traffic(Transport& transport, reference_list* references, access const& how, std::uint32_t tag)
      : transport_(transport), references_(references), how_(how), tag_(tag) {
    if constexpr (maps) references_->clear();
  }

  TUTTI_HOST_DEVICE protocol_violation const& found() const noexcept { return violation_; }
  // Whether views may be foreign.
  TUTTI_HOST_DEVICE bool pulls() const noexcept { return maps && how_.pulls; }

  // These are on the stack, or where the transport has room for them.
  TUTTI_HOST_DEVICE decltype(auto) lists() const noexcept {
    if constexpr (stores_fan_lists<Transport>) return *static_cast<fan*>(transport_.fan_lists());
    else return fan{};
  }

  // -- Sending through a slot: claim a place, write, publish. Null while the receiver has not made room.
  TUTTI_CALLS_ANY
  TUTTI_HOST_DEVICE T* claim(int peer, int track, std::size_t n, std::size_t alignment = alignof(T)) noexcept {
    return reinterpret_cast<T*>(transport_.claim(peer, track, n * sizeof(T), alignment));
  }
  // `raw`: the elements pass through the operation's prologue.
  TUTTI_CALLS_ANY
  template <class Body>
  TUTTI_HOST_DEVICE void write(Body const& body, T const* from, T* to, std::size_t n, bool raw) {
    if constexpr (maps) {
      auto const trial = raw ? store_gauge::trial{} : transport_.gauge().begin(n * sizeof(T));
      body(&from, 1, &to, 1, n, {.prepare = raw ? 0 : -1, .stream = trial.stream});
      transport_.gauge().end(trial, n * sizeof(T));
    } else {
      body(&from, 1, &to, 1, n, {.prepare = raw ? 0 : -1});
    }
  }
  // Whether n elements are written to a slot past the caches.
  bool streams(std::size_t n) const noexcept {
    if constexpr (maps) return transport_.gauge().streams(n * sizeof(T));
    else return false;
  }
  TUTTI_CALLS_ANY
  TUTTI_HOST_DEVICE void publish(int peer, int track, std::size_t n, bool more) noexcept {
    transport_.publish(peer, track, n * sizeof(T), more, tag_);
  }

  // -- Sending without a copy, where `refers` says so, after a claim. The memory must not change until it has been read.
  TUTTI_CALLS_ANY
  TUTTI_HOST_DEVICE bool refers(T const* data, std::size_t n) const noexcept {
    if constexpr (maps) {
      std::size_t const bytes = n * sizeof(T);
      if (!how_.refers || bytes <= inline_bytes) return false;
      return transport_.is_shared(data, bytes) || (how_.pulls && bytes >= min_fetched);
    } else {
      return false;
    }
  }
  TUTTI_CALLS_ANY
  TUTTI_HOST_DEVICE void refer(int peer, int track, T const* data, std::size_t n, bool more) noexcept {
    if constexpr (maps) {
      std::size_t const bytes = n * sizeof(T);
      bool const foreign = !transport_.is_shared(data, bytes);
      transport_.publish_reference(peer, track, data, foreign, bytes, more, tag_);
      references_->add(transport_, {peer, track, transport_.published(peer, track), data, data + n});
    }
  }
  TUTTI_CALLS_ANY
  TUTTI_HOST_DEVICE bool refers_to_any() const noexcept {
    if constexpr (maps) return !references_->empty();
    else return false;
  }
  // Whether peers have read all references to these elements.
  TUTTI_CALLS_ANY
  TUTTI_HOST_DEVICE bool all_read(T const* data, std::size_t n) noexcept {
    if constexpr (maps) return references_->all_read(transport_, data, data + n);
    else return true;
  }
  // Whether no peer needs this rank any more.
  TUTTI_CALLS_ANY
  TUTTI_HOST_DEVICE bool settled() noexcept {
    if constexpr (needs_sender_progress<Transport>)
      if (!transport_.all_sent()) return false;
    if constexpr (maps) return references_->all_read(transport_);
    else return true;
  }

  // -- Receiving: whether the slice that is due has arrived, alone or in its run, which is find_run(); use the view, release.
  TUTTI_CALLS_ANY
  template <class FindRun>
  TUTTI_HOST_DEVICE bool arrived(int peer, int track, message_slice const& slice, FindRun const& find_run,
                                 view& out) noexcept {
    arrival const message = transport_.peek(peer, track, tag_);
    if (message.state == arrival::nothing) return false;
    message_slice due = slice;
    if constexpr (maps)
      if (message.bytes > slice.range.count * sizeof(T)) due = find_run();
    std::size_t const bytes = due.range.count * sizeof(T);
    if (!message || message.bytes != bytes || message.more != due.more) {
      violation_ = {.peer = peer,
                    .other_call = message.state == arrival::mismatched,
                    .bytes = message.bytes,
                    .more = message.more,
                    .expected = bytes,
                    .expected_more = due.more};
      return false;
    }
    out = {reinterpret_cast<T const*>(message.data), message.foreign, false};
    if constexpr (maps) {
      out.data += slice.range.begin - due.range.begin;
      out.in_run = due.range.count > slice.range.count;
    }
    return true;
  }
  // Whether a run is at the head of a channel. Everything else is a slice at most.
  bool has_run(int peer, int track) noexcept {
    arrival const message = transport_.peek(peer, track, tag_);
    return message && message.bytes > how_.slice;
  }
  TUTTI_CALLS_ANY
  TUTTI_HOST_DEVICE void release(int peer, int track) noexcept { transport_.release(peer, track); }

  // Fails silently where the peer has ended, which the caller finds out while it waits.
  TUTTI_CALLS_ANY
  TUTTI_HOST_DEVICE bool fetch(int peer, T const* from, T* to, std::size_t n) noexcept {
    if constexpr (maps) {
      int const refused = transport_.fetch(peer, reinterpret_cast<std::byte*>(to),
                                           reinterpret_cast<std::byte const*>(from), n * sizeof(T));
      if (refused != 0 && refused != ESRCH) violation_ = {.peer = peer, .refused = refused};
      return refused == 0;
    } else {
      return false;
    }
  }
  // The same, into this rank's room for the slice of source k, to be combined from there.
  TUTTI_CALLS_ANY
  TUTTI_HOST_DEVICE bool fetch(int peer, int k, view& from, std::size_t n) noexcept {
    T* const to = reinterpret_cast<T*>(how_.fetched + static_cast<std::size_t>(k) * how_.slice);
    if (!fetch(peer, from.data, to, n)) return false;
    from = {to, false, false};
    return true;
  }

 private:
  static constexpr bool maps = maps_memory<Transport>;

  // Below this size, a copy through a slot takes less time than the system call that fetches.
  static constexpr std::size_t min_fetched = 4096;

  Transport& transport_;
  reference_list* references_;
  access how_;
  std::uint32_t tag_;
  protocol_violation violation_{};
};

}  // namespace tutti::detail
