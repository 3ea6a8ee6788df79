// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The buffers and channels of a symbolic execution: an element of a buffer is a number of an expression.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tutti/algorithm/cursor.hpp"
#include "tutti/analyze/contract.hpp"
#include "tutti/analyze/expression.hpp"

namespace tutti::analyze {

// Under which circumstances a schedule is proved.
struct circumstances {
  bool in_place = false;   // what a rank has in its input and in its output is the same memory
  bool direct = false;     // a message is a reference to memory, which the receiver reads when it consumes the message
  int slices = 1;          // of a chunk
  int credits = 1;         // slices that a channel holds before its sender must wait
  int slice = 1;           // elements of a slice; the last slice of a chunk has one
  bool uneven = false;     // chunks differ in length, and some are empty
  bool announces = false;  // a message without elements is sent too

  constexpr int chunk() const { return (slices - 1) * slice + 1; }
};

// The lengths of one rank's messages. Uneven chunks have any length up to that of an even one.
class symbolic_sizes {
 public:
  symbolic_sizes(collective what, int rank, int chunks, circumstances const& how)
      : what_(what), rank_(rank), chunks_(chunks), how_(how) {}

  std::size_t at(space where, int lane, int chunk) const {
    if (!how_.uneven) return static_cast<std::size_t>(how_.chunk());
    if (!renumbers(what_)) return length(lane, chunk);
    return where == space::input ? length(rank_, chunk) : length(chunk, rank_);
  }
  std::size_t count(int lane, region const& r, int k) const {
    if (r.split) return at(r.where, lane, r.what.at(k, chunks_));
    std::size_t sum = 0;
    for (int i = 0; i < r.what.count; ++i) sum += at(r.where, lane, r.what.at(i, chunks_));
    return sum;
  }
  std::size_t largest(int lane, region const& r) const {
    std::size_t most = 0;
    for (int k = 0; k < (r.split ? r.what.count : 1); ++k) most = std::max(most, count(lane, r, k));
    return most;
  }
  std::size_t largest_chunk(int lane) const { return largest(lane, {space::scratch, {0, chunks_}, true}); }

 private:
  // In place, the block that a rank sends to a peer and the block that it receives from it have the same length.
  std::size_t length(int a, int b) const {
    return static_cast<std::size_t>(((how_.in_place ? a : 2 * a) + b + 1) % (how_.chunk() + 1));
  }

  collective what_;
  int rank_, chunks_;
  circumstances how_;
};

static_assert(tutti::detail::message_sizes<symbolic_sizes>);

inline constexpr int nowhere = -1;

// The input, output and scratch memory of all ranks. A cell is one element.
class symbolic_memory {
 public:
  using value = expressions::value;

  // `scratch_per_slice`: slices go through scratch one after the other, so each lane has room for one slice.
  symbolic_memory(collective what, shape s, int lanes, int chunks, bool scratch_per_slice, circumstances const& how)
      : what_(what),
        shape_(s),
        lanes_(lanes),
        chunks_(chunks),
        length_(how.chunk()),
        slice_(scratch_per_slice ? how.slice : 0),
        in_place_(how.in_place),
        values_(static_cast<std::size_t>(s.ranks * 3 * lanes * chunks * length_), expressions::nothing),
        readers_(values_.size(), 0) {}

  int cell(int rank, space where, int lane, int chunk, int element) const {
    if (where == space::scratch && slice_ > 0) chunk = 0, element %= slice_;
    if (where == space::output && in_place_ && has(input_of(what_, shape_, rank), rank, chunk)) where = space::input;
    int const s = static_cast<int>(where) - 1;
    return (((rank * 3 + s) * lanes_ + lane) * chunks_ + chunk) * length_ + element;
  }
  std::size_t cells() const { return values_.size(); }
  value& operator[](int cell) { return values_[static_cast<std::size_t>(cell)]; }
  value operator[](int cell) const { return values_[static_cast<std::size_t>(cell)]; }
  // How many messages refer to this cell.
  int& readers(int cell) { return readers_[static_cast<std::size_t>(cell)]; }

 private:
  collective what_;
  shape shape_;
  int lanes_, chunks_, length_, slice_;
  bool in_place_;
  std::vector<value> values_;
  std::vector<int> readers_;
};

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
  int length(int from, int to, int track) const { return queue(from, to, track).count; }
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
