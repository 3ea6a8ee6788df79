// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algorithm two_level: the ranks of a node combine through shared memory, and the representatives of nodes combine
// across nodes; for some collectives, every rank represents its part of the message.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
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
#include "tutti/collective/two_level_memory.hpp"
#include "tutti/tune/parts.hpp"

namespace tutti::detail {

template <class Transport>
template <class Levels, collective C, class Body, bool Ragged>
class levels<Transport>::parts : levels<Transport>::template memory_of_parts<C, typename Body::element, Ragged> {
  using base = typename levels<Transport>::template memory_of_parts<C, typename Body::element, Ragged>;

 public:
  using T = typename Body::element;

  parts(levels& all, detail::begun_call<Transport>& begun, Body body)
      : base(all), call_(begun), body_(body), end_(deadline::after(begun.timeout())) {}

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
  using base::input_, base::output_, base::whole_, base::block_, base::total_;
  using base::locate, base::memory_of, base::are_adjacent, base::place_blocks, base::counts_of, base::copy;
  using base::nodes, base::size, base::representative, base::represents, base::home, base::detours;
  using base::of_, base::root_, base::each_;

  static constexpr bool commutative = [] {
    if constexpr (Body::reduces) return is_commutative<std::remove_cvref_t<decltype(std::declval<Body>().op)>>;
    else return true;
  }();

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

  detail::begun_call<Transport>& call_;
  Body body_;
  deadline end_;
  options how_{};
};

}  // namespace tutti::detail
