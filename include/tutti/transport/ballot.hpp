// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Agreement among ranks, some of which may end meanwhile: votes in the segment, and a single decision.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// The subject of a vote. Ranks may disagree on it, which is an outcome of its own.
enum class motion : std::uint32_t { agree, shrink };

struct resolution {
  enum outcomes : std::uint32_t { agreed, timed_out, mismatched } outcome = agreed;
  std::uint32_t flags = ~0u;  // bitwise and of all votes
  std::vector<int> gone;      // ranks that have ended or left
  std::vector<int> left;      // those of `gone` that have left; their processes may be running
  // agreed: ranks that voted 0; timed_out: that did not vote in time; mismatched: that voted on the other motion
  std::vector<int> named;
};

// All ranks number agreements alike. Each rank writes its vote. A rank that has seen a vote or the end of every other, or
// whose time is up, writes the outcome on its own page, and then its rank and the number of the agreement into one shared
// word by compare-and-swap. The first to succeed has decided for all, and its outcome stays readable after it ends.
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
  // The vote of a rank in this agreement, once it has been cast.
  std::optional<vote> of(int rank, std::uint64_t number) const noexcept {
    std::uint64_t const word = segment_->rank(rank).vote.load(std::memory_order_acquire);
    if (word >> 33 != (number & counted)) return {};
    return vote{static_cast<motion>(word >> 32 & 1), static_cast<std::uint32_t>(word)};
  }

  // Does nothing if this agreement has been decided.
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
  // Empty until the agreement is decided. For a rank so late that the others have decided two more agreements, the outcome
  // is lost, and is reported as its own timeout.
  std::optional<resolution> decision(std::uint64_t number) const {
    std::uint64_t const word = segment_->header().decided.load(std::memory_order_acquire);
    if (number_of(word) < number) return {};
    resolution out;
    if (number_of(word) == number)
      if (read(segment_->rank(static_cast<int>(word & ((1u << rank_bits) - 1))).proposed[number % proposals], number,
               out))
        return out;
    out.outcome = resolution::timed_out;
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
  // False if its author has begun to overwrite it with a later one.
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

}  // namespace tutti::detail
