// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/ballot.hpp.
#pragma once

#include "tutti/transport/ballot.hpp"

namespace tutti::detail {

TUTTI_INLINE rank_set rank_set::of(std::vector<int> const& list) noexcept {
  rank_set out;
  for (int const r : list) out.words[static_cast<std::size_t>(r) / 64] |= std::uint64_t{1} << r % 64;
  return out;
}

TUTTI_INLINE std::vector<int> rank_set::list(int ranks) const {
  std::vector<int> out;
  for (int r = 0; r < ranks; ++r)
    if ((words[static_cast<std::size_t>(r) / 64] >> r % 64 & 1) != 0) out.push_back(r);
  return out;
}

TUTTI_INLINE void ballot::propose(std::uint64_t number, resolution const& v) noexcept {
  std::uint64_t last = segment_->header().decided.load(std::memory_order_acquire);
  if (number_of(last, number) >= number) return;
  proposal& mine = segment_->rank(rank_).proposed[number % proposals];
  mine.number.store(0, std::memory_order_relaxed);
  mine.outcome.store(v.outcome, std::memory_order_release);
  mine.flags.store(v.flags, std::memory_order_release);
  write(v.gone, mine.gone);
  write(v.left, mine.left);
  write(v.named, mine.named);
  mine.number.store(number, std::memory_order_release);
  std::uint64_t const before = number_of(last, number) + 1 == number ? rank_of(last) : nobody;
  segment_->header().decided.compare_exchange_strong(
      last, number << 32 | before << 16 | static_cast<std::uint64_t>(rank_), std::memory_order_acq_rel);
}

TUTTI_INLINE bool ballot::awaits_vote(int rank) const noexcept {
  auto const number = [&](int r) { return segment_->rank(r).vote.load(std::memory_order_acquire) >> 33; };
  auto const after = [&](std::uint64_t other) { return ((number(rank) - other) & counted) - 1 < counted / 2; };
  return after(number(rank_)) && after(segment_->header().decided.load(std::memory_order_acquire) >> 32);
}

TUTTI_INLINE std::optional<resolution> ballot::decision(std::uint64_t number) const {
  std::uint64_t const word = segment_->header().decided.load(std::memory_order_acquire);
  std::uint64_t const last = number_of(word, number);
  if (last < number) return {};
  std::uint64_t const decider = last == number ? rank_of(word) : last == number + 1 ? rank_before(word) : nobody;
  resolution out;
  if (decider != nobody && read(segment_->rank(static_cast<int>(decider)).proposed[number % proposals], number, out))
    return out;
  out.outcome = resolution::timed_out;
  out.gone = out.left = {};
  out.named = {rank_};
  return out;
}

TUTTI_INLINE void ballot::write(std::vector<int> const& ranks, set& to) noexcept {
  rank_set const all = rank_set::of(ranks);
  for (std::size_t i = 0; i < proposal::words; ++i) to[i].store(all.words[i], std::memory_order_release);
}

TUTTI_INLINE std::vector<int> ballot::read(set const& from) const {
  rank_set all;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(ranks_ - 1) / 64; ++i)
    all.words[i] = from[i].load(std::memory_order_acquire);
  return all.list(ranks_);
}

TUTTI_INLINE bool ballot::read(proposal const& p, std::uint64_t number, resolution& out) const {
  if (p.number.load(std::memory_order_acquire) != number) return false;
  out.outcome = static_cast<resolution::outcomes>(p.outcome.load(std::memory_order_acquire));
  out.flags = p.flags.load(std::memory_order_acquire);
  out.gone = read(p.gone);
  out.left = read(p.left);
  out.named = read(p.named);
  return p.number.load(std::memory_order_relaxed) == number;
}

}  // namespace tutti::detail
