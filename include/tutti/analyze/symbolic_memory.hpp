// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The buffers of a symbolic execution.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "tutti/analyze/circumstances.hpp"
#include "tutti/analyze/contract.hpp"
#include "tutti/analyze/expression.hpp"
#include "tutti/analyze/step_check.hpp"

namespace tutti::analyze {

inline constexpr int nowhere = -1;

// An element of a slice: its chunk, and where it lies.
struct place {
  int chunk;
  int element;  // of the chunk
  int cell;
};
using places = std::vector<place>;

inline bool same_cells(places const& a, places const& b) {
  return std::ranges::equal(a, b, {}, &place::cell, &place::cell);
}

// The input, output and scratch memory of all ranks. A cell holds the value of one element. Throws a flaw where a rank
// touches memory that it does not have or that holds nothing.
class symbolic_memory {
 public:
  using value = expressions::value;

  // `has_scratch`: the schedule has scratch memory. `one_slice`: its slices pass through scratch one after the other, so each
  // lane has room for one slice.
  symbolic_memory(collective what, shape s, int lanes, int chunks, bool has_scratch, bool one_slice,
                  circumstances const& how)
      : what_(what),
        shape_(s),
        lanes_(lanes),
        chunks_(chunks),
        length_(how.chunk()),
        slice_(one_slice ? how.slice : 0),
        has_scratch_(has_scratch),
        in_place_(how.in_place),
        values_(static_cast<std::size_t>(s.ranks * 3 * lanes * chunks * length_), expressions::nothing),
        readers_(values_.size(), 0) {
    for (int r = 0; r < s.ranks; ++r) sizes_.emplace_back(what, r, chunks, how);
  }

  symbolic_sizes const& sizes(int rank) const { return sizes_[static_cast<std::size_t>(rank)]; }
  std::size_t cells() const { return values_.size(); }
  value& operator[](int cell) { return values_[static_cast<std::size_t>(cell)]; }
  value operator[](int cell) const { return values_[static_cast<std::size_t>(cell)]; }
  // How many messages refer to this cell.
  int& readers(int cell) { return readers_[static_cast<std::size_t>(cell)]; }

  int cell(int rank, space where, int lane, int chunk, int element) const {
    if (where == space::scratch && slice_ > 0) chunk = 0;
    if (where == space::output && in_place_ && has(input_of(what_, shape_, rank), rank, chunk)) where = space::input;
    int const s = static_cast<int>(where) - 1;
    return (((rank * 3 + s) * lanes_ + lane) * chunks_ + chunk) * length_ + offset(where, element);
  }

  // Calls f(contribution, cell) for what a rank has in its input or output.
  template <class F>
  void for_each_element(int rank, space where, F f) const {
    holding const held = where == space::input ? input_of(what_, shape_, rank) : output_of(what_, shape_, rank);
    for (int chunk = 0; chunk < chunks_; ++chunk)
      if (has(held, rank, chunk))
        for (int lane = 0; lane < lanes_; ++lane)
          for (int e = 0; e < static_cast<int>(sizes(rank).at(where, lane, chunk)); ++e)
            f(contribution{rank, lane, chunk, e}, cell(rank, where, lane, chunk, e));
  }

  // The places of a range of the message to or from peer k. `verb` is for the flaw where there are none.
  void find(places& out, position me, region const& r, int k, extent range, char const* verb = "writes ") const {
    out.clear();
    std::size_t begin = 0;
    int const first = r.split ? k : 0, last = r.split ? k + 1 : r.what.count;
    for (int i = first; i < last && begin < range.end(); ++i) {
      int const chunk = r.what.at(i, chunks_);
      std::size_t const length = sizes(me.rank).at(r.where, me.lane, chunk);
      std::size_t e = range.begin > begin ? range.begin - begin : 0;
      if (e < length && !is_there(me.rank, r.where, chunk))
        throw flaw{verb + name(r.where, chunk) + " that it does not have"};
      int const start = r.where == space::none ? nowhere : cell(me.rank, r.where, me.lane, chunk, 0);
      for (; e < length && begin + e < range.end(); ++e) {
        int const element = static_cast<int>(e);
        out.push_back({chunk, element, r.where == space::none ? nowhere : start + offset(r.where, element)});
      }
      begin += length;
    }
  }
  // The same, which have been written to.
  void find_readable(places& out, position me, region const& r, int k, extent range) const {
    find(out, me, r, k, range, "reads ");
    for (place const& p : out)
      if (values_[static_cast<std::size_t>(p.cell)] == expressions::nothing)
        throw flaw{"reads " + name(r.where, p.chunk) + ", which nobody wrote"};
  }
  // The chunk that holds element `begin` of the message to or from peer k; of an empty message, the first.
  int chunk_at(position me, region const& r, int k, std::size_t begin) const {
    if (r.split) return r.what.at(k, chunks_);
    for (int i = 0; i < r.what.count; ++i) {
      int const chunk = r.what.at(i, chunks_);
      std::size_t const length = sizes(me.rank).at(r.where, me.lane, chunk);
      if (begin < length) return chunk;
      begin -= length;
    }
    return r.what.at(0, chunks_);
  }

  static std::string name(space where, int chunk) {
    static constexpr char const* names[] = {"no", "input", "output", "scratch"};
    return std::string(names[static_cast<int>(where)]) + " chunk " + std::to_string(chunk);
  }

 private:
  int offset(space where, int element) const {
    return where == space::scratch && slice_ > 0 ? element % slice_ : element;
  }
  bool is_there(int rank, space where, int chunk) const {
    if (where == space::input) return has(input_of(what_, shape_, rank), rank, chunk);
    if (where == space::output) return has(output_of(what_, shape_, rank), rank, chunk);
    return where == space::none || has_scratch_;
  }

  collective what_;
  shape shape_;
  int lanes_, chunks_, length_, slice_;
  bool has_scratch_, in_place_;
  std::vector<symbolic_sizes> sizes_;  // of each rank
  std::vector<value> values_;
  std::vector<int> readers_;
};

}  // namespace tutti::analyze
