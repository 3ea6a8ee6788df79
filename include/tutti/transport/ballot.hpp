// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ranks agree though some of them end in the middle: votes in the segment, and one decision.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tutti/transport/segment.hpp"

namespace tutti {

// What ranks vote on; not all may mean the same.
enum class motion : std::uint32_t { agree, shrink };

struct resolution {
  enum outcomes : std::uint32_t { agreed, late, confused } outcome = agreed;
  std::uint32_t flags = ~0u;  // of all who voted, bitwise and
  std::vector<int> gone;      // have ended or left
  std::vector<int> left;      // those of them that have left, and may live
  std::vector<int> named;     // agreed: voted 0; late: did not vote in time; confused: voted on the other motion
};

// Agreements are numbered, alike at all ranks. A rank writes its vote. Who sees that each rank has voted or is gone, or has
// no more time, writes down what it has seen, and then its own name and the number into one word, by compare-and-swap: the
// first to do so has decided for all. What it wrote stays when it ends.
class ballot {
 public:
  ballot(segment const& s, int rank, int ranks) : segment_(&s), rank_(rank), ranks_(ranks) {}

  struct vote {
    motion on;
    std::uint32_t flags;
  };

  void cast(std::uint64_t number, vote const& v) noexcept {
    std::uint64_t const head = number << 1 | static_cast<std::uint64_t>(v.on);
    segment_->rank(rank_).vote.store(head << 32 | v.flags, std::memory_order_release);
  }
  // Of a rank in this agreement, if it has come so far.
  std::optional<vote> of(int rank, std::uint64_t number) const noexcept {
    std::uint64_t const word = segment_->rank(rank).vote.load(std::memory_order_acquire);
    if (word >> 33 != (number & counted)) return {};
    return vote{static_cast<motion>(word >> 32 & 1), static_cast<std::uint32_t>(word)};
  }

  // No effect where this agreement is decided already.
  void propose(std::uint64_t number, resolution const& v) noexcept {
    std::uint64_t last = segment_->header().decided.load(std::memory_order_acquire);
    if (number_of(last) >= number) return;
    proposal& mine = segment_->rank(rank_).proposed[number % proposals];
    mine.number.store(0, std::memory_order_relaxed);
    mine.outcome.store(v.outcome, std::memory_order_release);
    mine.flags.store(v.flags, std::memory_order_release);
    write(v.gone, mine.gone);
    write(v.left, mine.left);
    write(v.named, mine.named);
    mine.number.store(number, std::memory_order_release);
    segment_->header().decided.compare_exchange_strong(last, number << rank_bits | static_cast<std::uint64_t>(rank_),
                                                       std::memory_order_acq_rel);
  }
  // None while there is none. Who comes so late that the others have decided on more than the next is late, whatever it was.
  std::optional<resolution> decision(std::uint64_t number) const {
    std::uint64_t const word = segment_->header().decided.load(std::memory_order_acquire);
    if (number_of(word) < number) return {};
    resolution out;
    if (number_of(word) == number)
      if (read(segment_->rank(static_cast<int>(word & ((1u << rank_bits) - 1))).proposed[number % proposals], number,
               out))
        return out;
    out.outcome = resolution::late;
    out.gone = out.left = {};
    out.named = {rank_};
    return out;
  }
  std::uint64_t last_decided() const noexcept {
    return number_of(segment_->header().decided.load(std::memory_order_acquire));
  }

 private:
  static constexpr int rank_bits = 16;
  static constexpr std::uint64_t counted = (std::uint64_t{1} << 31) - 1;
  static_assert(max_ranks <= 1 << rank_bits);

  using set = std::atomic<std::uint64_t>[proposal::words];

  static std::uint64_t number_of(std::uint64_t decided) noexcept { return decided >> rank_bits; }

  static void write(std::vector<int> const& ranks, set& to) noexcept {
    std::array<std::uint64_t, proposal::words> words{};
    for (int const r : ranks) words[static_cast<std::size_t>(r) / 64] |= std::uint64_t{1} << r % 64;
    for (std::size_t i = 0; i < words.size(); ++i) to[i].store(words[i], std::memory_order_release);
  }
  std::vector<int> read(set const& from) const {
    std::vector<int> out;
    for (int r = 0; r < ranks_; ++r)
      if ((from[static_cast<std::size_t>(r) / 64].load(std::memory_order_acquire) >> r % 64 & 1) != 0) out.push_back(r);
    return out;
  }
  // False where its author has begun to write another over it.
  bool read(proposal const& p, std::uint64_t number, resolution& out) const {
    if (p.number.load(std::memory_order_acquire) != number) return false;
    out.outcome = static_cast<resolution::outcomes>(p.outcome.load(std::memory_order_acquire));
    out.flags = p.flags.load(std::memory_order_acquire);
    out.gone = read(p.gone);
    out.left = read(p.left);
    out.named = read(p.named);
    return p.number.load(std::memory_order_relaxed) == number;
  }

  segment const* segment_;
  int rank_;
  int ranks_;
};

}  // namespace tutti
