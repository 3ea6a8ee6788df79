// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory of a collective in two levels: which ranks represent their nodes, and what each rank holds for the parts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "tutti/call/levels.hpp"
#include "tutti/tune/parts.hpp"

namespace tutti::detail {

// The representative of a node is its rank with the same local rank as the root; its first rank if nodes are uneven or
// there is no root. In a scan it is the last rank, which knows what the node makes, unless nodes are uneven.
template <class Transport>
template <collective C, class T, bool Ragged>
class levels<Transport>::memory_of_parts {
 protected:
  explicit memory_of_parts(levels& all) : of_(all) {}

  int nodes() const { return of_.nodes_.count(); }
  int size() const { return of_.inside_.size(); }
  int representative() const {
    if (!of_.nodes_.even()) return 0;
    return is_prefix(C) ? size() - 1 : root_ >= 0 ? of_.nodes_.local_rank(root_) : 0;
  }
  bool represents() const { return of_.local_ == representative(); }
  int home() const { return root_ >= 0 ? of_.nodes_.node_of(root_) : 0; }
  bool at_home() const { return of_.node_ == home(); }
  bool is_root() const { return of_.whole_.rank() == root_; }
  // The data of this local rank pass through the representative of its node, if it is another.
  int detoured() const { return is_prefix(C) ? size() - 1 : of_.nodes_.local_rank(root_); }
  bool detours() const { return (is_prefix(C) || (root_ >= 0 && at_home())) && detoured() != representative(); }

  // Empty for ranks that a part does not need.
  void locate(surfaces<T>& memory, std::size_t elements, bool split) {
    if constexpr (Ragged) {
      blocks_ = collects(C) ? memory.output.where : memory.input.where;
      elements = blocks_of_ranks(0, of_.whole_.ranks());
    } else if constexpr (by_block(C)) {
      layout const& block_of_rank = deals(C) ? memory.output.where : memory.input.where;
      each_ = block_of_rank.at(0, of_.whole_.rank()).count;
      elements = each_ * static_cast<std::size_t>(of_.whole_.ranks());
    }
    T* const in = const_cast<T*>(memory.input.data);  // which is never written to
    T* const out = memory.output.data;
    // Where the ranks of a node are consecutive, so are their blocks.
    int const first = of_.nodes_.members(of_.node_)[0];
    extent const own{blocks_of_ranks(0, first), blocks_of_ranks(first, first + size())};
    auto const scratch = [&](std::size_t n) {
      return std::span(reinterpret_cast<T*>(of_.whole_.scratch.at_least(n * sizeof(T))), n);
    };
    auto const at_root = [&](T* data) { return is_root() ? std::span(data, elements) : std::span<T>(); };
    if constexpr (C == collective::all_reduce) {
      input_ = {in, elements};
      whole_ = {out, elements};
      if (split) block_ = whole_.subspan(share(of_.local_).begin, share(of_.local_).count);
    } else if constexpr (C == collective::broadcast) {
      whole_ = {out, elements};
    } else if constexpr (C == collective::reduce) {
      input_ = {in, elements};
      output_ = at_root(out);
      if (represents()) whole_ = is_root() ? output_ : scratch(elements);
    } else if constexpr (is_prefix(C)) {
      bool const last = of_.local_ == size() - 1, adds = last && C == collective::exclusive_scan;
      input_ = {in, elements};
      output_ = {out, elements};
      auto const room = scratch(2 * elements);
      whole_ = room.first(elements);
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
      output_ = {out, count_of(of_.whole_.rank())};
      if (represents()) whole_ = scratch(elements), block_ = whole_.subspan(own.begin, own.count);
    } else if constexpr (C == collective::all_gather) {
      input_ = {in, count_of(of_.whole_.rank())};
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
    }
  }
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
  // The share of a local rank in a message that the ranks of a node divide.
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
    for (int q = 0; q < of_.whole_.ranks(); next += blocks_.at(0, q++).count)
      if (blocks_.at(0, q).count > 0 && blocks_.at(0, q).begin != next) return false;
    return true;
  }
  void place_blocks(T* out) const {
    T const* from = whole_.data();
    for (int q = 0; q < of_.whole_.ranks(); ++q) {
      extent const block = blocks_.at(0, q);
      copy(from, out + block.begin, block.count);
      from += block.count;
    }
  }
  // The sizes of the blocks of a part: of nodes, of the blocks or shares of a node's ranks, or of the detoured rank alone.
  std::vector<std::size_t> counts_of(level_part const& part) const {
    std::vector<std::size_t> out;
    for (int q = 0; q < (part.across ? nodes() : size()); ++q)
      out.push_back(part.across   ? count_of_node(q)
                    : part.detour ? (q == detoured() ? whole_.size() : 0)
                    : by_block(C) ? count_of(of_.nodes_.members(of_.node_)[static_cast<std::size_t>(q)])
                                  : share(q).count);
    return out;
  }
  std::size_t count_of(int rank) const { return blocks_of_ranks(rank, rank + 1); }
  std::size_t count_of_node(int node) const {
    std::size_t out = 0;
    for (int const rank : of_.nodes_.members(node)) out += count_of(rank);
    return C == collective::all_to_all ? out * static_cast<std::size_t>(size()) : out;
  }
  static void copy(T const* from, T* to, std::size_t count) {
    if (count > 0) std::memcpy(to, from, count * sizeof(T));
  }

  levels& of_;
  int root_ = -1;
  std::size_t each_ = 0;  // elements of a rank's block
  layout blocks_;         // of all ranks, in a _v form
  std::span<T> input_, output_, whole_, block_, total_;
};

}  // namespace tutti::detail
