// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algorithm two_level: the ranks of a node combine through shared memory, and the representatives of nodes combine
// across nodes; for some collectives, every rank represents its part of the message.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/call/levels.hpp"
#include "tutti/collective/all_gather.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/collective/all_to_all.hpp"
#include "tutti/collective/barrier.hpp"
#include "tutti/collective/broadcast.hpp"
#include "tutti/collective/gather.hpp"
#include "tutti/collective/reduce.hpp"
#include "tutti/collective/reduce_scatter.hpp"
#include "tutti/collective/scan.hpp"
#include "tutti/collective/scatter.hpp"
#include "tutti/tune/parts.hpp"

namespace tutti::detail {

// The representative of a node is its rank with the same local rank as the root; its first rank if nodes are uneven or
// there is no root. In a scan it is the last rank, which knows what the node makes, unless nodes are uneven.
template <class Transport>
template <class Levels, collective C, class Body, bool Ragged>
class levels<Transport>::parts {
 public:
  using T = typename Body::element;

  parts(levels& all, detail::begun_call<Transport>& begun, Body body)
      : of_(all), call_(begun), body_(body), end_(deadline::after(begun.timeout())) {}

  void run(int call_root, surfaces<T>& memory, std::size_t elements) {
    root_ = rooted(C) ? call_root : -1;
    bool const split =
        all_cross(C, of_.nodes_.even(), elements * sizeof(T)) && (C == collective::all_to_all || size() > 1);
    locate(memory, elements, split);
    if constexpr (C == collective::all_reduce || C == collective::all_to_all)
      if (split) return run_list<true>();
    run_list<false>();
    if constexpr (Ragged && collects(C))
      if (!are_adjacent()) place_blocks(memory.output.data);
  }

 private:
  static constexpr bool commutative = [] {
    if constexpr (Body::reduces) return is_commutative<std::remove_cvref_t<decltype(std::declval<Body>().op)>>;
    else return true;
  }();

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

  // -- The memory of parts. Empty for ranks that a part does not need.

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

  // -- The parts, one after the other.

  template <bool Split>
  void run_list() {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (run_part<Split, I>(), ...);
    }(std::make_index_sequence<parts_of(C, Split).count>());
  }
  template <bool Split, std::size_t I>
  void run_part() {
    constexpr level_part p = parts_of(C, Split).all[I];
    if (p.detour && !detours()) return;
    if constexpr (p.work == part_work::arranges)
      if (Split || represents()) arrange<Split, I>();
    if constexpr (p.across) {
      if (of_.across_ && (p.by_all || represents()))
        run_on<p.what, true, p.detour>(*of_.across_, of_.alike_, p, home());
      if constexpr (C == collective::all_to_all && Split) deliver();
    } else if (p.work != part_work::folds || of_.node_ > 0) {
      // After the detour of a broadcast, the ranks of its node have the message.
      if (C == collective::broadcast && !p.detour && detours()) return;
      bool const from_root = p.detour && p.what == collective::broadcast;
      run_on<p.what, false, p.detour>(of_.inside_, of_.nodes_.members(of_.node_), p,
                                      from_root ? of_.nodes_.local_rank(root_) : representative());
      if constexpr (p.work == part_work::totals || p.work == part_work::folds) combine<p.work>();
    }
  }

  // -- The work of a rank besides.

  // Combines the left operand with the right one, which the result replaces.
  void combine_into(std::span<T const> left, std::span<T> right) const {
    auto* const result = reinterpret_cast<std::byte*>(right.data());
    std::byte const* const sources[] = {reinterpret_cast<std::byte const*>(left.data()), result};
    body_.in_bytes()(sources, 2, &result, 1, right.size_bytes(), {});
  }
  template <part_work Work>
  void combine() const {
    bool const before_all = C == collective::exclusive_scan && of_.local_ == 0;  // of this node: nothing is in `output`
    if constexpr (Work == part_work::totals) {
      if (!total_.empty() && !before_all) combine_into(output_, total_);
    } else {
      if (before_all) copy(whole_.data(), output_.data(), whole_.size());
      else combine_into(whole_, output_);
    }
  }

  // Copies blocks of an all_to_all to `whole`. By every rank, first by the local rank and then by the node of the
  // recipient, and then by the node and local rank of the sender. By representatives, first by recipient, in the order
  // of nodes, and within a recipient's node by sender; and then by recipient, each with the blocks of all ranks.
  template <bool Split, std::size_t I>
  void arrange() {
    T* to = whole_.data();
    auto const append = [&](T const* from, std::size_t block) {
      copy(from + block * each_, to, each_);
      to += each_;
    };
    auto const index = [](int i) { return static_cast<std::size_t>(i); };
    auto const rank_of = [&](int node, int local) { return index(of_.nodes_.members(node)[index(local)]); };
    if constexpr (Split && I == 0) {
      for (int local = 0; local < size(); ++local)
        for (int node = 0; node < nodes(); ++node) append(input_.data(), rank_of(node, local));
    } else if constexpr (Split) {
      for (int node = 0; node < nodes(); ++node)
        for (int local = 0; local < size(); ++local) append(block_.data(), index(local * nodes() + node));
    } else if constexpr (I == 1) {
      for (int node = 0; node < nodes(); ++node)
        for (int sender = 0; sender < size(); ++sender)
          for (int local = 0; local < of_.nodes_.size(node); ++local)
            append(block_.data(), index(sender * of_.whole_.ranks()) + rank_of(node, local));
    } else {
      T const* from = block_.data();
      for (int node = 0; node < nodes(); ++node)
        for (int sender = 0; sender < of_.nodes_.size(node); ++sender)
          for (int local = 0; local < size(); ++local, from += each_)
            copy(from, to + (index(local * of_.whole_.ranks()) + rank_of(node, sender)) * each_, each_);
    }
  }
  // Copies the blocks that every rank has received to the output, if they are not there yet.
  void deliver() {
    if (!of_.across_) return copy(whole_.data(), output_.data(), output_.size());
    if (of_.nodes_.consecutive()) return;
    T const* from = block_.data();
    for (int node = 0; node < nodes(); ++node)
      for (int const rank : of_.nodes_.members(node)) {
        copy(from, output_.data() + static_cast<std::size_t>(rank) * each_, each_);
        from += each_;
      }
  }

  // The algorithm that was named for the level, if it serves the part.
  template <collective P, bool Across, bool Uneven>
  using serving =
      typename detail::serving<std::conditional_t<Across, typename Levels::across, typename Levels::inside>,
                               std::conditional_t<Across, typename Transport::across, typename Transport::inside>, P,
                               commutative, Uneven>::type;

  template <collective P, bool Across, bool Detour, class Comm>
  void run_on(Comm& comm, std::vector<int> const& members, level_part const& part, int part_root) {
    how_.timeout = std::max<std::chrono::nanoseconds>(end_.left(), std::chrono::milliseconds(1));
    std::span<T> const from = memory_of(part.from);
    std::span<T> to = memory_of(part.to);
    if constexpr (P == collective::all_to_all && Across)
      if (part.by_all && !of_.nodes_.consecutive()) to = block_;
    constexpr bool ragged = by_block(P) && (Across || Detour || Ragged || !by_block(C));
    using algorithm = std::conditional_t<Detour && ragged, automatic, serving<P, Across, ragged>>;
    auto const where = call_.where();
    try {
      if constexpr (P == collective::barrier) {
        tutti::barrier(comm, how_, where);
      } else if constexpr (P == collective::broadcast) {
        tutti::broadcast<algorithm>(comm, to, part_root, how_, where);
      } else if constexpr (reduces(P)) {
        auto const op = detail::bare_operation(body_);
        if constexpr (P == collective::all_reduce) tutti::all_reduce<algorithm>(comm, to, op, how_, where);
        else if constexpr (P == collective::reduce)
          tutti::reduce<algorithm>(comm, from, to, op, part_root, how_, where);
        else if constexpr (P == collective::scan) tutti::scan<algorithm>(comm, from, to, op, how_, where);
        else if constexpr (P == collective::exclusive_scan)
          tutti::exclusive_scan<algorithm>(comm, from, to, op, how_, where);
        else tutti::reduce_scatter_v<algorithm>(comm, from, to, counts_of(part), op, how_, where);
      } else if constexpr (P == collective::all_gather) {
        tutti::all_gather_v<algorithm>(comm, from, to, counts_of(part), {}, how_, where);
      } else if constexpr (P == collective::all_to_all) {
        if (!Across || part.by_all) {
          tutti::all_to_all<serving<P, Across, false>>(comm, from, to, how_, where);
        } else if constexpr (Across) {
          auto const counts = counts_of(part);
          tutti::all_to_all_v<algorithm>(comm, from, counts, to, counts, {}, {}, how_, where);
        }
      } else if constexpr (P == collective::gather) {
        if constexpr (ragged) tutti::gather_v<algorithm>(comm, from, to, counts_of(part), {}, part_root, how_, where);
        else tutti::gather<algorithm>(comm, from, to, part_root, how_, where);
      } else {
        if constexpr (ragged) tutti::scatter_v<algorithm>(comm, from, counts_of(part), to, {}, part_root, how_, where);
        else tutti::scatter<algorithm>(comm, from, to, part_root, how_, where);
      }
    } catch (error const& e) {
      of_.whole_.report_part(e, members, call_.timeout(), where);
    }
  }

  levels& of_;
  detail::begun_call<Transport>& call_;
  Body body_;
  deadline end_;
  options how_{};
  int root_ = -1;
  std::size_t each_ = 0;  // elements of a rank's block
  layout blocks_;         // of all ranks, in a _v form
  std::span<T> input_, output_, whole_, block_, total_;
};

}  // namespace tutti::detail
