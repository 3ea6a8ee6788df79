// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Receives whose messages arrive in slices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/fault/transfer.hpp"

namespace tutti::detail {

// The slices that a peer was asked for.
struct requested_slices {
  int receives = 0, readable = 0;
  std::size_t missing = 0;         // slices that may still arrive
  std::size_t stale = 0;           // those of them whose message was fetched meanwhile
  std::uint64_t last_fetched = 0;  // the last receive of such a message
};

// A receive with an address is readable: if its slices do not arrive, its message can be fetched from the sender's memory.
// Its source must not change while it is listed here, nor its address, except by end_reading().
class sliced_receives {
 public:
  // `slice`: bytes of a message in each slice.
  explicit sliced_receives(std::size_t slice) : slice_(slice) {}

  void add(transfer& r, requested_slices& from) {
    receives_.push_back(&r);
    count(r, from, 1);
    from.missing += slices_of(r);
  }
  // A slice of n bytes has arrived for receive `id`, which was found or not. Senders serve requests in order, so nothing stale follows
  // a slice that was requested later.
  void note_arrival(std::uint64_t id, transfer* found, std::size_t n, requested_slices& from) noexcept {
    if (id > from.last_fetched) forget_stale(from);
    if (found != nullptr) {
      std::size_t const before = slices_of(*found);
      found->moved += n;
      from.missing -= before - slices_of(*found);
    } else if (from.stale > 0) {
      --from.stale;
      --from.missing;
    }
  }
  // Its slices have arrived, or its message was fetched; then the sender may still send them.
  void remove(transfer& r, requested_slices& from) {
    std::erase(receives_, &r);
    count(r, from, -1);
    std::size_t const left = slices_of(r);
    if (left == 0) return;
    from.stale += left;
    from.last_fetched = r.id;
  }
  // Its message cannot be fetched.
  void end_reading(transfer& r, requested_slices& from) noexcept {
    count(r, from, -1);
    r.address = 0;
    count(r, from, 1);
  }
  // The counts of all peers are reset, too.
  void clear() {
    receives_.clear();
    readable_ = 0;
  }

  transfer* find(std::uint64_t id) const {
    for (transfer* const r : receives_)
      if (r->id == id) return r;
    return nullptr;
  }
  transfer* find_readable(int from) const {
    for (transfer* const r : receives_)
      if (r->source == from && r->address != 0) return r;
    return nullptr;
  }
  bool any() const noexcept { return !receives_.empty(); }
  bool any_readable() const noexcept { return readable_ > 0; }

 private:
  std::size_t slices_of(transfer const& r) const noexcept { return (r.got - r.moved + slice_ - 1) / slice_; }
  static void forget_stale(requested_slices& from) noexcept {
    from.missing -= from.stale;
    from.stale = 0;
  }
  void count(transfer const& r, requested_slices& from, int one) noexcept {
    from.receives += one;
    if (r.address == 0) return;
    from.readable += one;
    readable_ += one;
  }

  std::vector<transfer*> receives_;
  std::size_t slice_;
  int readable_ = 0;
};

}  // namespace tutti::detail
