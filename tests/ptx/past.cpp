// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ptx/past.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

namespace tutti::testing::ptx {

namespace {

std::uint64_t key(std::uint32_t block, std::uint16_t thread) { return std::uint64_t{block} << 16 | thread; }
bool by_thread(stamp const& a, stamp const& b) { return key(a.block, a.thread) < key(b.block, b.thread); }

// The entry of the same block and thread, which is made if there is none.
stamp& entry_of(std::vector<stamp>& sorted, stamp const& like) {
  auto const at = std::lower_bound(sorted.begin(), sorted.end(), like, by_thread);
  if (at != sorted.end() && at->same_thread(like)) return *at;
  return *sorted.insert(at, like);
}
stamp const* find(std::vector<stamp> const& sorted, std::uint32_t block, std::uint16_t thread) {
  // std::lower_bound would branch on each comparison, and mispredict half of these branches.
  std::uint64_t const wanted = key(block, thread);
  stamp const* at = sorted.data();
  for (std::size_t left = sorted.size(); left > 1;) {
    std::size_t const half = left / 2;
    at += key(at[half].block, at[half].thread) <= wanted ? half : 0;
    left -= half;
  }
  return !sorted.empty() && key(at->block, at->thread) == wanted ? at : nullptr;
}

// Joins two sorted lists; of two entries for the same thread, the later one remains.
template <class Later>
std::vector<stamp> merged(std::vector<stamp> const& a, std::vector<stamp> const& b, Later later) {
  std::vector<stamp> out;
  out.reserve(a.size() + b.size());
  auto x = a.begin(), y = b.begin();
  while (x != a.end() && y != b.end()) {
    if (by_thread(*x, *y)) out.push_back(*x++);
    else if (by_thread(*y, *x)) out.push_back(*y++);
    else out.push_back(later(*x, *y) ? *y : *x), ++x, ++y;
  }
  out.insert(out.end(), x, a.end());
  out.insert(out.end(), y, b.end());
  return out;
}

}  // namespace

bool past::has(stamp const& s) const {
  if (s.grid != 0 && (s.grid < grids_below_ || std::binary_search(grids_.begin(), grids_.end(), s.grid))) return true;
  if (stamp const* const block = find(blocks_, s.block, 0); block != nullptr && s.barriers < block->barriers)
    return true;
  stamp const* const thread = find(threads_, s.block, s.thread);
  return thread != nullptr && s.clock <= thread->clock;
}

bool past::includes(past const& other) const {
  auto const ended = [&](std::uint32_t grid) {
    return grid < grids_below_ || std::binary_search(grids_.begin(), grids_.end(), grid);
  };
  for (std::uint32_t grid = grids_below_; grid < other.grids_below_; ++grid)
    if (!ended(grid)) return false;
  if (!std::all_of(other.grids_.begin(), other.grids_.end(), ended)) return false;
  for (stamp const& s : other.blocks_) {
    stamp const* const mine = find(blocks_, s.block, 0);
    if ((s.grid == 0 || !ended(s.grid)) && (mine == nullptr || mine->barriers < s.barriers)) return false;
  }
  return std::all_of(other.threads_.begin(), other.threads_.end(), [&](stamp const& s) { return has(s); });
}

void past::join(past const& other) {
  grids_below_ = std::max(grids_below_, other.grids_below_);
  std::vector<std::uint32_t> grids;
  std::set_union(grids_.begin(), grids_.end(), other.grids_.begin(), other.grids_.end(), std::back_inserter(grids));
  grids_ = std::move(grids);
  blocks_ = merged(blocks_, other.blocks_, [](stamp const& a, stamp const& b) { return a.barriers < b.barriers; });
  threads_ = merged(threads_, other.threads_, [](stamp const& a, stamp const& b) { return a.clock < b.clock; });
  drop_what_is_implied();
}

void past::add_grid(std::uint32_t grid) {
  auto const at = std::lower_bound(grids_.begin(), grids_.end(), grid);
  if (at == grids_.end() || *at != grid) grids_.insert(at, grid);
  drop_what_is_implied();
}

void past::add_barrier(stamp const& of) {
  stamp block = of;
  block.thread = 0;
  stamp& mine = entry_of(blocks_, block);
  mine.barriers = std::max(mine.barriers, of.barriers);
  drop_what_is_implied();
}

void past::add_thread(stamp const& s) {
  stamp& mine = entry_of(threads_, s);
  if (mine.clock < s.clock) mine = s;
}

void past::drop_what_is_implied() {
  std::size_t first = 0;
  while (first < grids_.size() && grids_[first] <= grids_below_)
    grids_below_ = std::max(grids_below_, grids_[first++] + 1);
  grids_.erase(grids_.begin(), grids_.begin() + static_cast<std::ptrdiff_t>(first));
  auto const of_ended_grid = [&](stamp const& s) {
    return s.grid != 0 && (s.grid < grids_below_ || std::binary_search(grids_.begin(), grids_.end(), s.grid));
  };
  std::erase_if(blocks_, of_ended_grid);
  std::erase_if(threads_, [&](stamp const& s) {
    if (of_ended_grid(s)) return true;
    stamp const* const block = find(blocks_, s.block, 0);
    return block != nullptr && s.barriers < block->barriers;
  });
}

shared_past joined(shared_past const& a, shared_past const& b) {
  if (b == nullptr || a == b) return a;
  if (a == nullptr) return b;
  if (a->includes(*b)) return a;
  if (b->includes(*a)) return b;
  auto out = std::make_shared<past>(*a);
  out->join(*b);
  return out;
}

std::shared_ptr<past> copy_of(shared_past const& from) {
  return from != nullptr ? std::make_shared<past>(*from) : std::make_shared<past>();
}

shared_past agent::release() {
  auto out = copy_of(past_);
  out->add_thread(now_);
  ++now_.clock;
  return out;
}

}  // namespace tutti::testing::ptx
