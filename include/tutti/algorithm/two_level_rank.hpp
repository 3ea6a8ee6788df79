// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One rank of a collective in two levels: the parts that it takes part in, the memory that it holds for them, and its own work
// between them. collective/two_level.hpp makes the calls, and analyze/verify_two_level.hpp proves that they make the collective.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "tutti/algorithm/parts.hpp"
#include "tutti/core/cache_line.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/nodes.hpp"
#include "tutti/core/partition.hpp"

namespace tutti::detail {

// The representative of a node is its rank with the same local rank as the root; its first rank if nodes are uneven or
// there is no root. In a scan it is the last rank, which knows what the node makes, unless nodes are uneven.
//
// `Ragged`: of a _v form. `Blocks`: at(0, q) is the place of rank q's block in the array that has all of them.
template <collective C, class T, bool Ragged, class Blocks>
class two_level_rank {
 public:
  two_level_rank(node_map const& nodes, int rank, int ranks, int root)
      : nodes_(nodes),
        rank_(rank),
        ranks_(ranks),
        node_(nodes.node_of(rank)),
        local_(nodes.local_rank(rank)),
        root_(rooted(C) ? root : -1) {}

  // Whether every rank takes part across nodes.
  bool splits(std::size_t bytes) const {
    return all_cross(C, nodes_.even(), bytes) && (C == collective::all_to_all || size() > 1);
  }

  // Finds the memory of all parts. `elements`: of the message, unless it consists of blocks. room_for(n) returns room for n elements,
  // which stays until the call ends; it is called at most once. Memory is empty for ranks that a part does not need.
  template <class Scratch>
  void locate(T const* input, T* output, std::size_t elements, Blocks const& blocks, bool split, Scratch&& room_for) {
    blocks_ = blocks;
    if constexpr (by_block(C)) {
      if constexpr (!Ragged) each_ = blocks_.at(0, rank_).count;
      elements = blocks_of_ranks(0, ranks_);
    }
    T* const in = const_cast<T*>(input);  // which is never written to
    T* const out = output;
    // Where the ranks of a node are consecutive, so are their blocks.
    int const first = nodes_.members(node_)[0];
    extent const own{blocks_of_ranks(0, first), blocks_of_ranks(first, first + size())};
    auto const scratch = [&](std::size_t n) { return std::span<T>(room_for(n), n); };
    auto const at_root = [&](T* data) { return is_root() ? std::span(data, elements) : std::span<T>(); };
    if constexpr (C == collective::all_reduce) {
      input_ = {in, elements};
      whole_ = {out, elements};
      if (split) block_ = whole_.subspan(share(local_).begin, share(local_).count);
    } else if constexpr (C == collective::broadcast) {
      whole_ = {out, elements};
    } else if constexpr (C == collective::reduce) {
      input_ = {in, elements};
      output_ = at_root(out);
      if (represents()) whole_ = is_root() ? output_ : scratch(elements);
    } else if constexpr (is_prefix(C)) {
      input_ = {in, elements};
      output_ = {out, elements};
      // `whole` on all ranks but those of the first node that do not represent it; `total` where it is not in the output; and `block`
      // where it is not `total`.
      bool const last = local_ == size() - 1, adds = last && C == collective::exclusive_scan;
      bool const hears = node_ > 0 || represents(), keeps = adds || (represents() && !last);
      auto const room = hears || keeps ? scratch((std::size_t{hears} + std::size_t{keeps}) * elements) : std::span<T>();
      if (hears) whole_ = room.first(elements);
      if (adds) std::copy_n(in, elements, room.last(elements).data());  // in place, the first part overwrites it
      if (last) total_ = adds ? room.last(elements) : output_;
      if (represents()) block_ = last ? total_ : room.last(elements);
    } else if constexpr (C == collective::all_to_all) {
      input_ = {in, elements};
      output_ = {out, elements};
      if (std::size_t const n = split          ? elements
                                : represents() ? elements * static_cast<std::size_t>(size())
                                               : 0;
          n > 0) {
        auto const room = scratch(2 * n);
        whole_ = room.first(n);
        block_ = room.last(n);
      }
    } else if constexpr (C == collective::reduce_scatter) {
      input_ = {in, elements};
      output_ = {out, count_of(rank_)};
      if (represents()) whole_ = scratch(elements), block_ = whole_.subspan(own.begin, own.count);
    } else if constexpr (C == collective::all_gather) {
      input_ = {in, count_of(rank_)};
      whole_ = are_adjacent() ? std::span(out, elements) : scratch(elements);
      block_ = whole_.subspan(own.begin, own.count);
    } else if constexpr (C == collective::gather || C == collective::scatter) {
      constexpr bool gathers = C == collective::gather;
      input_ = gathers ? std::span(in, each_) : at_root(in);
      output_ = gathers ? at_root(out) : std::span(out, each_);
      if (represents() && at_home()) {
        whole_ = !is_root() ? scratch(elements) : gathers ? output_ : input_;
        block_ = whole_.subspan(own.begin, own.count);
      } else if (represents()) {
        block_ = scratch(own.count);
      }
    } else {
      static_assert(C == collective::barrier, "find the memory of the parts of this collective");
    }
  }

  // -- The parts, one after the other: before(), then a call if takes_part(), then after().

  template <bool Split, std::size_t I>
  static constexpr level_part part_at = parts_of(C, Split).all[I];

  template <bool Split, std::size_t I>
  bool takes_part() const {
    constexpr level_part p = part_at<Split, I>;
    if (p.detour && !detours()) return false;
    if (p.across) return nodes() > 1 && (p.by_all || represents());
    if (p.work == part_work::folds && node_ == 0) return false;
    // After the detour of a broadcast, the ranks of its node have the message.
    return !(C == collective::broadcast && !p.detour && detours());
  }
  // The root of a part: a node, or a local rank.
  int root_of(level_part const& p) const {
    if (p.across) return home();
    return p.detour && p.what == collective::broadcast ? nodes_.local_rank(root_) : representative();
  }
  template <bool Split, std::size_t I>
  void before() {
    constexpr level_part p = part_at<Split, I>;
    if constexpr (p.work == part_work::arranges)
      if (Split || represents()) arrange<Split, I>();
  }
  // combine(left, right) combines the left operand with the right one, which the result replaces.
  template <bool Split, std::size_t I, class Combine>
  void after(Combine&& combine) {
    constexpr level_part p = part_at<Split, I>;
    if constexpr (p.across && C == collective::all_to_all && Split) deliver();
    bool const before_all = C == collective::exclusive_scan && local_ == 0;  // of this node: nothing is in `output`
    if constexpr (p.work == part_work::totals)
      if (!total_.empty() && !before_all) combine(std::span<T const>(output_), total_);
    if constexpr (p.work == part_work::folds) {
      if (node_ == 0) return;
      if (before_all) copy(output_.data(), whole_.data(), whole_.size());
      else combine(std::span<T const>(whole_), output_);
    }
  }
  // Once all parts are done: copies the blocks of a _v form that are not adjacent to their places.
  void finish(T* out) const {
    if constexpr (Ragged && collects(C))
      if (!are_adjacent()) place_blocks(out);
  }

  // -- What a part is called with.

  // Whether it is a _v form, with counts_of(part).
  static constexpr bool is_ragged(level_part const& p) {
    return by_block(p.what) && (p.across ? !p.by_all : p.detour || Ragged || !by_block(C));
  }
  std::span<T> from(level_part const& p) const { return memory_of(p.from); }
  std::span<T> to(level_part const& p) const {
    return C == collective::all_to_all && p.across && p.by_all && !nodes_.consecutive() ? block_ : memory_of(p.to);
  }
  // The sizes of the blocks of a part: of nodes, of the blocks or shares of a node's ranks, or of the detoured rank alone.
  std::vector<std::size_t> counts_of(level_part const& part) const {
    std::vector<std::size_t> out;
    for (int q = 0; q < (part.across ? nodes() : size()); ++q)
      out.push_back(part.across   ? count_of_node(q)
                    : part.detour ? (q == detoured() ? whole_.size() : 0)
                    : by_block(C) ? count_of(nodes_.members(node_)[static_cast<std::size_t>(q)])
                                  : share(q).count);
    return out;
  }

  int nodes() const { return nodes_.count(); }
  int size() const { return nodes_.size(node_); }
  int node() const { return node_; }
  int local() const { return local_; }

 private:
  int representative() const {
    if (!nodes_.even()) return 0;
    return is_prefix(C) ? size() - 1 : root_ >= 0 ? nodes_.local_rank(root_) : 0;
  }
  bool represents() const { return local_ == representative(); }
  int home() const { return root_ >= 0 ? nodes_.node_of(root_) : 0; }
  bool at_home() const { return node_ == home(); }
  bool is_root() const { return rank_ == root_; }
  // The data of this local rank pass through the representative of its node, if it is another.
  int detoured() const { return is_prefix(C) ? size() - 1 : nodes_.local_rank(root_); }
  bool detours() const { return (is_prefix(C) || (root_ >= 0 && at_home())) && detoured() != representative(); }

  std::span<T> memory_of(part_memory which) const {
    switch (which) {
      case part_memory::input: return input_;
      case part_memory::output: return output_;
      case part_memory::whole: return whole_;
      case part_memory::block: return block_;
      case part_memory::total: return total_;
      case part_memory::none: break;
    }
    return {};
  }
  // The share of a local rank in a message that the ranks of a node divide. Shares begin at cache lines, so that no two ranks write the
  // same one.
  extent share(int local) const {
    constexpr std::size_t grain = sizeof(T) < cache_line ? cache_line / sizeof(T) : 1;
    return tutti::part(whole_.size(), size(), local, grain);
  }
  // The elements in the blocks of these ranks.
  std::size_t blocks_of_ranks(int begin, int end) const {
    if constexpr (!Ragged) return each_ * static_cast<std::size_t>(end - begin);
    std::size_t out = 0;
    for (int q = begin; q < end; ++q) out += blocks_.at(0, q).count;
    return out;
  }
  // Whether the blocks of a _v form follow each other without gaps, as they do in other collectives.
  bool are_adjacent() const {
    if constexpr (!Ragged) return true;
    std::size_t next = 0;
    for (int q = 0; q < ranks_; next += blocks_.at(0, q++).count)
      if (blocks_.at(0, q).count > 0 && blocks_.at(0, q).begin != next) return false;
    return true;
  }
  void place_blocks(T* out) const {
    T const* from = whole_.data();
    for (int q = 0; q < ranks_; ++q) {
      extent const block = blocks_.at(0, q);
      copy(out + block.begin, from, block.count);
      from += block.count;
    }
  }
  std::size_t count_of(int rank) const { return blocks_of_ranks(rank, rank + 1); }
  std::size_t count_of_node(int node) const {
    std::size_t out = 0;
    for (int const rank : nodes_.members(node)) out += count_of(rank);
    return C == collective::all_to_all ? out * static_cast<std::size_t>(size()) : out;
  }

  // Copies blocks of an all_to_all to `whole`. By every rank, first by the local rank and then by the node of the
  // recipient, and then by the node and local rank of the sender. By representatives, first by recipient, in the order
  // of nodes, and within a recipient's node by sender; and then by recipient, each with the blocks of all ranks.
  template <bool Split, std::size_t I>
  void arrange() {
    T* to = whole_.data();
    auto const append = [&](T const* from, std::size_t block) {
      copy(to, from + block * each_, each_);
      to += each_;
    };
    auto const index = [](int i) { return static_cast<std::size_t>(i); };
    auto const rank_of = [&](int node, int local) { return index(nodes_.members(node)[index(local)]); };
    if constexpr (Split && I == 0) {
      for (int local = 0; local < size(); ++local)
        for (int node = 0; node < nodes(); ++node) append(input_.data(), rank_of(node, local));
    } else if constexpr (Split) {
      for (int node = 0; node < nodes(); ++node)
        for (int local = 0; local < size(); ++local) append(block_.data(), index(local * nodes() + node));
    } else if constexpr (I == 1) {
      for (int node = 0; node < nodes(); ++node)
        for (int sender = 0; sender < size(); ++sender)
          for (int local = 0; local < nodes_.size(node); ++local)
            append(block_.data(), index(sender * ranks_) + rank_of(node, local));
    } else {
      T const* from = block_.data();
      for (int node = 0; node < nodes(); ++node)
        for (int sender = 0; sender < nodes_.size(node); ++sender)
          for (int local = 0; local < size(); ++local, from += each_)
            copy(to + (index(local * ranks_) + rank_of(node, sender)) * each_, from, each_);
    }
  }
  // Copies the blocks that every rank has received to the output, if they are not there yet.
  void deliver() {
    if (nodes() == 1) return copy(output_.data(), whole_.data(), output_.size());
    if (nodes_.consecutive()) return;
    T const* from = block_.data();
    for (int node = 0; node < nodes(); ++node)
      for (int const rank : nodes_.members(node)) {
        copy(output_.data() + static_cast<std::size_t>(rank) * each_, from, each_);
        from += each_;
      }
  }

  static void copy(T* to, T const* from, std::size_t count) {
    if (count > 0) std::memcpy(to, from, count * sizeof(T));
  }

  node_map const& nodes_;
  int rank_, ranks_, node_, local_;
  int root_;
  std::size_t each_ = 0;  // elements of a rank's block
  Blocks blocks_{};       // of all ranks, in a _v form
  std::span<T> input_, output_, whole_, block_, total_;
};

}  // namespace tutti::detail
