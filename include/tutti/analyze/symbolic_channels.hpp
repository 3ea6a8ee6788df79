// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The channels of a symbolic execution.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "tutti/analyze/circumstances.hpp"
#include "tutti/analyze/expression.hpp"
#include "tutti/analyze/symbolic_memory.hpp"

namespace tutti::analyze {

// An element on its way.
struct symbol {
  expressions::value what = expressions::nothing;
  int cell = nowhere;  // where the message is a reference: the cell that it refers to
  int chunk = 0;
  int element = 0;  // of the chunk
};

// A channel for each pair of ranks and track, which holds a few slices in order.
class symbolic_channels {
 public:
  struct message {
    symbol* symbols;
    int count;
    bool more;
  };

  symbolic_channels(int ranks, int tracks, circumstances const& how)
      : ranks_(ranks),
        tracks_(tracks),
        credits_(how.credits),
        slice_(how.slice),
        queues_(static_cast<std::size_t>(ranks * ranks * tracks)),
        headers_(queues_.size() * static_cast<std::size_t>(credits_)),
        symbols_(headers_.size() * static_cast<std::size_t>(slice_)) {}

  bool empty(int from, int to, int track) const { return queue(from, to, track).count == 0; }
  bool full(int from, int to, int track) const { return queue(from, to, track).count == credits_; }
  message at(int from, int to, int track, int i) {
    std::size_t const place = slot(from, to, track, i);
    return {&symbols_[place * static_cast<std::size_t>(slice_)], headers_[place].count, headers_[place].more};
  }
  message front(int from, int to, int track) { return at(from, to, track, 0); }
  // Room for `count` symbols, which the caller fills in.
  symbol* push(int from, int to, int track, std::size_t count, bool more) {
    std::size_t const place = slot(from, to, track, queue(from, to, track).count++);
    headers_[place] = {static_cast<int>(count), more};
    return &symbols_[place * static_cast<std::size_t>(slice_)];
  }
  void pop(int from, int to, int track) {
    fifo& q = queue(from, to, track);
    q.first = (q.first + 1) % credits_;
    --q.count;
  }
  // The peer and the track of a message that refers to a cell of `owner`.
  std::pair<int, int> find_reader(int owner, int cell) {
    for (int peer = 0; peer < ranks_; ++peer)
      for (int track = 0; track < tracks_; ++track)
        for (int i = 0; i < queue(owner, peer, track).count; ++i) {
          message const m = at(owner, peer, track, i);
          for (int k = 0; k < m.count; ++k)
            if (m.symbols[k].cell == cell) return {peer, track};
        }
    return {owner, 0};
  }

 private:
  struct fifo {
    int first = 0;
    int count = 0;
  };
  struct header {
    int count = 0;
    bool more = false;
  };

  std::size_t channel(int from, int to, int track) const {
    return static_cast<std::size_t>((from * ranks_ + to) * tracks_ + track);
  }
  fifo& queue(int from, int to, int track) { return queues_[channel(from, to, track)]; }
  fifo const& queue(int from, int to, int track) const { return queues_[channel(from, to, track)]; }
  std::size_t slot(int from, int to, int track, int i) const {
    std::size_t const c = channel(from, to, track);
    return c * static_cast<std::size_t>(credits_) + static_cast<std::size_t>((queues_[c].first + i) % credits_);
  }

  int ranks_, tracks_, credits_, slice_;
  std::vector<fifo> queues_;
  std::vector<header> headers_;
  std::vector<symbol> symbols_;
};

}  // namespace tutti::analyze
