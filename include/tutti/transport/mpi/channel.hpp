// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The two ends of a channel between ranks of an MPI communicator, and the messages in it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mpi.h>

#include "tutti/core/wait.hpp"
#include "tutti/transport/mpi/board.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti::detail {

struct mpi_channel {
  static constexpr std::size_t slice_bytes = 64 * 1024;
  static constexpr std::size_t window = 16;

  // Precedes the payload of a message.
  struct head {
    std::uint32_t tag;
    std::uint32_t bytes_and_more;
    std::uint64_t sequence;
  };
  struct alignas(cache_line) slot {
    std::byte unused[cache_line - sizeof(head)];
    head front;
    std::byte data[slice_bytes];
  };
  static_assert(offsetof(slot, data) == cache_line && offsetof(slot, data) == offsetof(slot, front) + sizeof(head));

  // Requests are apart from the slots, so that making a window does not touch the pages of its slots.
  struct slot_window {
    std::array<MPI_Request, window> requests;
    std::array<slot, window> all;

    slot_window() noexcept { requests.fill(MPI_REQUEST_NULL); }
  };
  struct lone_slot {
    MPI_Request request = MPI_REQUEST_NULL;
    slot place;
  };

  struct sender {
    std::unique_ptr<slot_window> slots;
    std::uint64_t published = 0;
    std::uint64_t sent = 0;
    bool listed = false;  // among those with messages of calls that have not left
    int to = 0;           // its receiver, once listed
    sender* next_listed = nullptr;
    std::uint64_t confirmed = 0;  // messages that the receiver has received
    std::uint64_t marked = 0;     // messages that it has received once it is known to be in a call after `marked_in`
    std::uint64_t marked_in = 0;

    std::uint64_t confirmed_by(mpi_board const& board, int peer) noexcept {
      if (board.last_known_call(peer) > marked_in) {
        confirmed = marked;
        marked = published;
        marked_in = board.sequence();
      }
      return confirmed;
    }
    void abandon() noexcept {
      if (sent < published) static_cast<void>(slots.release());
    }
  };
  struct receiver {
    std::unique_ptr<slot_window> slots;
    std::uint64_t taken = 0;
    bool arrived = false;  // at the head of the channel

    void cancel(deadline until) noexcept {
      if (!slots) return;
      for (std::size_t place = 0; place < window; ++place) {
        MPI_Request& r = slots->requests[place];
        if (r == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&r);
        auto const test = [&] {
          int ended = 0;
          MPI_Test(&r, &ended, MPI_STATUS_IGNORE);
          return ended != 0 ? progress::done : progress::stuck;
        };
        if (wait_until_done(test, patience_sharing_cores, until, sleep_for(nap_length))) continue;
        return static_cast<void>(slots.release());
      }
    }
  };

  // The ends of the channels with a peer on one track.
  struct ends {
    sender out;
    receiver in;
  };
};

}  // namespace tutti::detail
