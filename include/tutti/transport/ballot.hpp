// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Agreement among ranks, some of which may end meanwhile: votes in the segment, and a single decision.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// A set of ranks, a bit for each. Its size is fixed, whatever the number of ranks.
struct rank_set {
  std::uint64_t words[proposal::words]{};

  static rank_set of(std::vector<int> const& list) noexcept;
  // Those below `ranks`, in order.
  std::vector<int> list(int ranks) const;
};

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
// word by compare-and-swap. The first to succeed has decided for all, and its outcome stays readable after it ends. The word
// also names the rank that decided the agreement before, whose outcome a late rank may still have to read.
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
  void propose(std::uint64_t number, resolution const& v) noexcept;
  // Empty until the agreement is decided. For a rank so late that the others have begun to decide the second agreement
  // after it, the outcome is lost, and is reported as its own timeout.
  std::optional<resolution> decision(std::uint64_t number) const;
  // Whether a rank has cast its vote in an agreement that waits for that of this rank.
  [[gnu::cold]] bool awaits_vote(int rank) const noexcept;
  // The number of the last agreement that was decided, which is less than 2^31 away from `number`.
  std::uint64_t last_decided(std::uint64_t number) const noexcept {
    return number_of(segment_->header().decided.load(std::memory_order_acquire), number);
  }

 private:
  static constexpr std::uint64_t counted = (std::uint64_t{1} << 31) - 1;

  using set = std::atomic<std::uint64_t>[proposal::words];

  // The word of a decision: the number of the agreement << 32, of which the high half is lost | the rank that decided the one
  // before << 16 | the rank.
  static constexpr std::uint64_t nobody = 0xffff;
  static_assert(max_ranks <= nobody);
  static std::uint64_t number_of(std::uint64_t decided, std::uint64_t near) noexcept {
    auto const distance = static_cast<std::uint32_t>(decided >> 32) - static_cast<std::uint32_t>(near);
    return near + static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(distance)});
  }
  static std::uint64_t rank_of(std::uint64_t decided) noexcept { return decided & nobody; }
  static std::uint64_t rank_before(std::uint64_t decided) noexcept { return decided >> 16 & nobody; }

  static void write(std::vector<int> const& ranks, set& to) noexcept;
  std::vector<int> read(set const& from) const;
  // False if its author has begun to overwrite it with a later one.
  bool read(proposal const& p, std::uint64_t number, resolution& out) const;

  segment const* segment_;
  int rank_;
  int ranks_;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/ballot_impl.hpp"
#endif
