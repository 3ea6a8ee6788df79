// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When a rank that does not wait looks for messages all the same.
#pragma once

#include "tutti/transport/concept.hpp"

namespace tutti::detail {

// In shared memory, a look takes the line of the next message from a sender that is about to write to it. Over other transports, each
// start and each send looks, so that what is in flight progresses.
template <class Transport>
class rare_looks {
 public:
  // Whether a receive that starts looks for its message: its sender has probably written it, because this rank has sent something since
  // it last received; or messages come as fast as their receives start, and then need not pass through a queue.
  bool pays_at_receive(bool has_sent_last) noexcept {
    if constexpr (!prefetches_messages<Transport>) return true;
    return found_ || has_sent_last || ++receives_without_ % 8 == 0;
  }
  void note_receive(bool found) noexcept { found_ = found; }

  // Whether a send that ends at once also drives what has been started.
  bool pays_after_send() noexcept {
    if constexpr (!prefetches_messages<Transport>) return true;
    return ++sends_without_ % 16 == 0;
  }

 private:
  bool found_ = false;  // by the last receive that has looked
  unsigned receives_without_ = 0, sends_without_ = 0;
};

}  // namespace tutti::detail
