// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each rank learns that all others have arrived, and whether any of them wants more.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/core/wait.hpp"
#include "tutti/execute/protocol_violation.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti::detail {

// A dissemination barrier (Hensgen, Finkel, Manber, 1988) with messages of one byte: in step k a rank tells the rank 2^k above
// it what it has heard so far. It follows no schedule, because it precedes calls that take microseconds.
template <transport Transport>
class roll_call {
 public:
  roll_call(Transport& transport, std::uint32_t tag, bool wants_more) noexcept
      : transport_(transport), tag_(tag), said_(wants_more) {}

  progress poll() noexcept {
    int const rank = transport_.rank(), ranks = transport_.ranks();
    for (; distance_ < ranks; distance_ *= 2) {
      if (!told_ && !tell((rank + distance_) % ranks)) return progress::stuck;
      told_ = true;
      int const from = (rank - distance_ + ranks) % ranks;
      arrival const a = transport_.peek(from, 0, tag_);
      if (a.state == arrival::nothing) return progress::stuck;
      if (!a || a.bytes != 1) {
        violation_ = {.peer = from, .other_call = !a, .bytes = a.bytes, .more = a.more, .expected = 1};
        return progress::done;
      }
      said_ |= *a.data != std::byte{0};
      transport_.release(from, 0);
      told_ = false;
    }
    if constexpr (needs_sender_progress<Transport>)
      if (!transport_.all_sent()) return progress::stuck;
    return progress::done;
  }

  protocol_violation const& found() const noexcept { return violation_; }
  bool more_wanted() const noexcept { return said_; }

 private:
  bool tell(int peer) noexcept {
    std::byte* const place = transport_.claim(peer, 0, 1, 1);
    if (place == nullptr) return false;
    *place = std::byte{said_};
    transport_.publish(peer, 0, 1, false, tag_);
    return true;
  }

  Transport& transport_;
  std::uint32_t tag_;
  bool said_;
  int distance_ = 1;
  bool told_ = false;  // in this step
  protocol_violation violation_{};
};

}  // namespace tutti::detail
