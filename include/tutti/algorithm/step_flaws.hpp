// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is wrong with a single step, for the verifier and for calls by a program's own algorithm, whose steps nobody may
// have verified.
#pragma once

#include <numeric>

#include "tutti/algorithm/collective.hpp"
#include "tutti/algorithm/concept.hpp"

namespace tutti::detail {

// The defect of a step's numbers of chunks, of which there are `all`; null if there is none. To count the elements of a
// message with such a defect would divide by 0 or take for ever.
inline char const* flaw_in_chunks(step const& t, int all) {
  for (region const* r : {&t.own, &t.keep, &t.give}) {
    if (r->what.run < 1 || r->what.count < 0) return "names fewer than 0 chunks, or runs of fewer than 1";
    if (!r->split && r->what.count > all) return "names more chunks in a message than there are";
  }
  return nullptr;
}

// The defect of a step of rank `self`; null if there is none.
inline char const* flaw_in_step(step const& t, int self, shape s, bool pipelined) {
  if (t.from.count < 0 || t.to.count < 0) return "names fewer than 0 peers";
  auto const distinct = [&](peers const& p) { return p.count <= s.ranks / std::gcd(s.ranks, wrap(p.stride, s.ranks)); };
  auto const one_chunk = [](peers const& p, region const& r) { return p.empty() || r.split || r.what.count == 1; };
  if (!distinct(t.from) || !distinct(t.to)) return "names a peer twice";
  if ((t.give.split && !t.forwards() && t.give.what.count != t.to.count) ||
      (!t.from.empty() && t.keep.split && t.keep.what.count != t.from.count))
    return "splits chunks among peers, but not as many";
  if (pipelined && !(one_chunk(t.from, t.keep) && one_chunk(t.to, t.give)))
    return "moves several chunks in a message, but the schedule is pipelined";
  if (t.keep.where == space::input) return "writes to its input";
  if (t.forwards() && (t.from.empty() || t.keep.split)) return "passes on a result, but forms none";
  if (t.from.empty()) return nullptr;
  if (t.keep.where == space::none && !t.forwards()) return "neither keeps nor passes on what it receives";
  bool contributes = false;
  for (int k = 0; k < t.from.count; ++k) contributes |= t.from.at(k, s.ranks) == self;
  if (!contributes) return nullptr;
  if (t.own.where == space::none) return "is among its sources, but contributes nothing";
  if (!t.keep.split && t.own.what.count != t.keep.what.count)
    return "contributes another number of chunks than it receives";
  return nullptr;
}

// The same for what would touch memory that the rank does not have, in a step that has none of the defects above. `all`
// chunks; `ragged`: blocks differ in size.
inline char const* flaw_in_memory(step const& t, collective what, int self, shape s, int all, bool scratch,
                                  bool ragged) {
  collective_row const& row = row_of(what);
  auto const is_there = [&](region const& r) {
    if (r.where == space::none) return true;
    if (r.where == space::scratch) return scratch;
    if (r.where != space::input && r.where != space::output) return false;
    holding const held = (r.where == space::input ? row.input : row.output).at(self == s.root);
    for (int k = 0; k < r.what.count; ++k)
      if (!has(held, self, r.what.at(k, all))) return false;
    return true;
  };
  if (!t.to.empty() && !is_there(t.give)) return "sends from memory that the rank does not have";
  if (t.from.empty()) return nullptr;
  if (!is_there(t.keep)) return "writes to memory that the rank does not have";
  for (int k = 0; k < t.from.count; ++k) {
    if (t.from.at(k, s.ranks) != self) continue;
    if (!is_there(t.own)) return "contributes memory that the rank does not have";
    if (!t.keep.split) return nullptr;
    if (t.own.what.count != 1) return "contributes several chunks where it keeps one";
    // Chunks that may be longer than others; an all_to_all knows that its own block is as long in both arrays.
    int const own = t.own.what.at(0, all);
    bool const even = by_block(what) && !ragged;
    if (!even && (own != t.keep.what.at(k, all) || (by_block(what) && t.own.where == space::input && own != self)))
      return "contributes a chunk that may be shorter than the one that it keeps";
  }
  return nullptr;
}

}  // namespace tutti::detail
