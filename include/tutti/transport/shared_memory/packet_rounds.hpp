// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Packets in a shared segment: the lines that each rank publishes in a round, and how far their readers are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/transport/cache_lines.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// One rank's view. All ranks number rounds alike, from 1.
class packet_rounds {
 public:
  packet_rounds(int rank, int ranks) : rank_(rank), ranks_(ranks), read_(static_cast<std::size_t>(ranks)) {}

  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  segment const& memory() const noexcept { return segment_; }

  std::uint64_t next_round() noexcept { return ++round_; }
  packet* packets(int rank, std::uint64_t round, bool far) const noexcept {
    rank_page& owner = segment_.rank(rank);
    return far ? owner.far[round & (far_sets_ - 1)] : owner.near[round % near_sets];
  }
  // Fetches this rank's first packets of a round for writing.
  void prefetch_packets(std::uint64_t round, bool far, std::size_t lines) const noexcept {
    prefetch_for_writing(packets(rank_, round, far), lines * cache_line);
  }
  // Whether all peers have finished with the previous contents of these lines.
  bool packets_writable(std::uint64_t round, bool far) noexcept {
    std::uint64_t const sets = far ? far_sets_ : near_sets;
    if (round <= all_read_ + sets) return true;
    all_read_ = round;
    for (int r = 0; r < ranks_; ++r) {
      if (r == rank_) continue;
      std::uint64_t& read = read_[static_cast<std::size_t>(r)];
      if (read + sets < round) read = segment_.rank(r).packets_read.load(std::memory_order_acquire);
      if (read < all_read_) all_read_ = read;
    }
    readers_lag_ = all_read_ + 1 < round;
    return round <= all_read_ + sets;
  }
  // Whether all peers are already known to have read the far lines that this round overwrites. Looks nothing up.
  bool packets_known_read(std::uint64_t round) const noexcept { return round <= all_read_ + far_sets_; }
  // Whether a peer had yet to read the round before this one when its progress was last looked up.
  bool readers_lag() const noexcept { return readers_lag_; }
  // A peer that publishes a round has finished with all earlier ones.
  void packets_seen(int peer, std::uint64_t round) noexcept { read_[static_cast<std::size_t>(peer)] = round - 1; }

 protected:
  void attach(segment s, std::size_t sets) noexcept {
    segment_ = s;
    far_sets_ = sets;
  }
  // This rank has finished with a round.
  void note_round(std::uint64_t round) noexcept {
    segment_.rank(rank_).packets_read.store(round, std::memory_order_release);
  }
  // As if there had been this many rounds.
  [[gnu::cold]] void skip_rounds(std::uint64_t count) noexcept {
    round_ = all_read_ = count;
    read_.assign(read_.size(), count);
    note_round(count);
  }

  int rank_;
  int ranks_;
  segment segment_;

 private:
  std::uint64_t far_sets_ = far_sets;  // a power of 2, the same at all ranks
  std::uint64_t round_ = 0;
  std::uint64_t all_read_ = 0;       // rounds that all peers are known to have finished with
  std::vector<std::uint64_t> read_;  // and those of each peer
  bool readers_lag_ = false;
};

}  // namespace tutti::detail
