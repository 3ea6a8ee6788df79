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
#include "tutti/collective/barrier.hpp"
#include "tutti/collective/broadcast.hpp"
#include "tutti/collective/gather.hpp"
#include "tutti/collective/reduce.hpp"
#include "tutti/collective/reduce_scatter.hpp"
#include "tutti/collective/scatter.hpp"
#include "tutti/tune/parts.hpp"

namespace tutti::detail {

// The representative of a node is its rank with the same local rank as the root; its first rank if nodes are uneven or
// there is no root.
template <class Transport>
template <class Levels, collective C, class Body>
class levels<Transport>::parts {
 public:
  using T = typename Body::element;

  parts(levels& all, detail::begun_call<Transport>& begun, Body body)
      : of_(all), call_(begun), body_(body), end_(deadline::after(begun.timeout())) {}

  void run(int call_root, surfaces<T>& memory, std::size_t elements) {
    root_ = rooted(C) ? call_root : -1;
    bool const split =
        C == collective::all_reduce && of_.nodes_.even() && size() > 1 && elements * sizeof(T) >= min_split_bytes;
    locate(memory, elements, split);
    if (C == collective::all_reduce && split) run_list<true>();
    else run_list<false>();
  }

 private:
  static constexpr bool commutative = [] {
    if constexpr (Body::reduces) return is_commutative<std::remove_cvref_t<decltype(std::declval<Body>().op)>>;
    else return true;
  }();

  int nodes() const { return of_.nodes_.count(); }
  int size() const { return of_.inside_.size(); }
  int representative() const { return root_ >= 0 && of_.nodes_.even() ? of_.nodes_.local_rank(root_) : 0; }
  bool represents() const { return of_.local_ == representative(); }
  int home() const { return root_ >= 0 ? of_.nodes_.node_of(root_) : 0; }
  bool at_home() const { return of_.node_ == home(); }
  bool is_root() const { return of_.whole_.rank() == root_; }
  // The root's data pass through the representative of its node.
  bool detours() const { return root_ >= 0 && at_home() && of_.nodes_.local_rank(root_) != representative(); }

  // -- The memory of parts. Empty for ranks that a part does not need.

  void locate(surfaces<T>& memory, std::size_t elements, bool split) {
    if constexpr (by_block(C)) {
      layout const& block_of_rank = deals(C) ? memory.output.where : memory.input.where;
      each_ = block_of_rank.at(0, of_.whole_.rank()).count;
      elements = each_ * static_cast<std::size_t>(of_.whole_.ranks());
    }
    T* const in = const_cast<T*>(memory.input.data);  // which is never written to
    T* const out = memory.output.data;
    extent const own{each_ * static_cast<std::size_t>(of_.nodes_.members(of_.node_)[0]),
                     each_ * static_cast<std::size_t>(size())};
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
    } else if constexpr (C == collective::reduce_scatter) {
      input_ = {in, elements};
      output_ = {out, each_};
      if (represents()) whole_ = scratch(elements), block_ = whole_.subspan(own.begin, own.count);
    } else if constexpr (C == collective::all_gather) {
      input_ = {in, each_};
      whole_ = {out, elements};
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
      case part_memory::none: break;
    }
    return {};
  }
  // The share of a local rank in a message that the ranks of a node divide.
  extent share(int local) const {
    constexpr std::size_t grain = sizeof(T) < cache_line ? cache_line / sizeof(T) : 1;
    return tutti::part(whole_.size(), size(), local, grain);
  }
  // The sizes of the blocks of a part: of nodes, of the shares of a node's ranks, or of the root alone.
  std::vector<std::size_t> counts_of(level_part const& part) const {
    std::vector<std::size_t> out;
    for (int q = 0; q < (part.across ? nodes() : size()); ++q)
      out.push_back(part.across   ? each_ * static_cast<std::size_t>(of_.nodes_.size(q))
                    : part.detour ? (q == of_.nodes_.local_rank(root_) ? whole_.size() : 0)
                                  : share(q).count);
    return out;
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
    if constexpr (p.across) {
      if (of_.across_ && (p.by_all || represents()))
        run_on<p.what, true, p.detour>(*of_.across_, of_.alike_, p, home());
    } else {
      // After the detour of a broadcast, the ranks of its node have the message.
      if (C == collective::broadcast && !p.detour && detours()) return;
      bool const from_root = p.detour && p.what == collective::broadcast;
      run_on<p.what, false, p.detour>(of_.inside_, of_.nodes_.members(of_.node_), p,
                                      from_root ? of_.nodes_.local_rank(root_) : representative());
    }
  }

  // The algorithm that was named for the level, if it serves the part.
  template <collective P, bool Across, bool Ragged>
  using serving =
      typename detail::serving<std::conditional_t<Across, typename Levels::across, typename Levels::inside>,
                               std::conditional_t<Across, typename Transport::across, typename Transport::inside>, P,
                               commutative, Ragged>::type;

  template <collective P, bool Across, bool Detour, class Comm>
  void run_on(Comm& comm, std::vector<int> const& members, level_part const& part, int part_root) {
    how_.timeout = std::max<std::chrono::nanoseconds>(end_.left(), std::chrono::milliseconds(1));
    std::span<T> const from = memory_of(part.from), to = memory_of(part.to);
    constexpr bool ragged = by_block(P) && (Across || Detour || !by_block(C));
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
        else tutti::reduce_scatter_v<algorithm>(comm, from, to, counts_of(part), op, how_, where);
      } else if constexpr (P == collective::all_gather) {
        tutti::all_gather_v<algorithm>(comm, from, to, counts_of(part), {}, how_, where);
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
  std::span<T> input_, output_, whole_, block_;
};

}  // namespace tutti::detail
