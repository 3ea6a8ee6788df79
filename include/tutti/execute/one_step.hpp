// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A call by a schedule of one_shot, in which every rank has one step: it sends to all its receivers, and then stores or combines what
// arrives from its sources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tutti/algorithm/collective.hpp"
#include "tutti/algorithm/one_shot.hpp"
#include "tutti/execute/body.hpp"
#include "tutti/execute/protocol_violation.hpp"

namespace tutti::detail {

// One rank's part of the call, on contiguous arrays. Derived classes move the messages.
template <collective C>
class one_step {
 public:
  // `chunk`: bytes of a block where chunks are blocks, else of the message. `in` and `out` begin with the first block that
  // this rank has there.
  one_step(int rank, shape s, std::byte const* in, std::byte* out, std::size_t chunk, byte_body body, std::uint32_t tag)
      : body_(body),
        rank_(rank),
        ranks_(s.ranks),
        in_(in),
        out_(out),
        chunk_(chunk),
        tag_(tag),
        step_(schedule<one_shot, C>{}.at(s, {rank}, 0)) {}

  protocol_violation const& found() const noexcept { return violation_; }

 protected:
  // A message holds a block for every rank, which gets only its own.
  static constexpr bool dealt = deals(C);
  // A barrier combines tokens.
  static constexpr bool combines_values = tutti::reduces(C) || C == collective::barrier;

  bool sends() const noexcept { return !step_.to.empty(); }
  bool hears() const noexcept { return !step_.from.empty(); }
  bool contributes() const noexcept { return step_.own.where != space::none; }

  // What this rank sends to a peer, or contributes itself.
  std::byte const* block_for(int peer) const noexcept {
    return in_ + (dealt ? static_cast<std::size_t>(peer) * chunk_ : 0);
  }
  std::byte const* own() const noexcept { return block_for(rank_); }
  // Where a peer's block is kept, if it is not combined.
  std::byte* place_of(int peer) const noexcept {
    return out_ + (collects(C) ? static_cast<std::size_t>(peer) * chunk_ : 0);
  }

  // Calls f(peer) for each source except this rank, until it returns false. The next call resumes with that source.
  template <class F>
  bool for_each_source(F&& f) {
    for (; next_ < step_.from.count; ++next_) {
      int const peer = step_.from.at(next_, ranks_);
      if (peer != rank_ && !f(peer)) return false;
    }
    return true;
  }

  // Stores this rank's own block, if no operation does.
  void keep_own() noexcept {
    if (contributes() && place_of(rank_) != own()) std::memcpy(place_of(rank_), own(), chunk_);
  }
  // Combines what has arrived from the sources, in their order. `arrived(peer)` is where a peer's values are. `raw`: this rank's own
  // values have not passed through the operation's prologue.
  template <class Where>
  void combine(bool raw, Where const& arrived) {
    std::byte const* sources[max_ranks];
    int self = -1;
    for (int k = 0; k < step_.from.count; ++k) {
      int const peer = step_.from.at(k, ranks_);
      if (peer == rank_) self = k;
      sources[k] = peer == rank_ ? own() : arrived(peer);
    }
    body_(sources, step_.from.count, &out_, 1, chunk_,
          {.prepare = raw ? self : -1, .finish = step_.complete ? ranks_ : 0});
  }

  byte_body body_;
  int rank_;
  int ranks_;
  std::byte const* in_;
  std::byte* out_;
  std::size_t chunk_;
  std::uint32_t tag_;
  step const step_;
  int next_ = 0;  // source
  protocol_violation violation_{};
};

}  // namespace tutti::detail
