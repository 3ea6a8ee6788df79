// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algorithm two_level: the ranks of a node combine through shared memory, and the representatives of nodes combine
// across nodes; for some collectives, every rank represents its part of the message.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/algorithm/two_level_rank.hpp"
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

namespace tutti::detail {

template <class Transport>
template <class Levels, collective C, class Body, bool Ragged>
class levels<Transport>::parts {
 public:
  using T = typename Body::element;

  parts(levels& all, detail::begun_call<Transport>& begun, Body body, int call_root)
      : of_(all),
        call_(begun),
        body_(body),
        end_(deadline::after(begun.timeout())),
        here_(all.nodes_, all.whole_.rank(), all.whole_.ranks(), call_root) {}

  void run(surfaces<T>& memory, std::size_t elements) {
    bool const split = here_.splits(elements * sizeof(T));
    // Of a _v form, the side with the blocks of all ranks; else, the side with one.
    layout const& blocks = (Ragged ? collects(C) : deals(C)) ? memory.output.where : memory.input.where;
    here_.locate(memory.input.data, memory.output.data, elements, blocks, split,
                 [&](std::size_t n) { return reinterpret_cast<T*>(of_.whole_.scratch.at_least(n * sizeof(T))); });
    if constexpr (C == collective::all_reduce || C == collective::all_to_all) {
      if (split) run_list<true>();
      else run_list<false>();
    } else {
      run_list<false>();
    }
    here_.finish(memory.output.data);
  }

 private:
  static constexpr bool commutative = [] {
    if constexpr (Body::reduces) return is_commutative<std::remove_cvref_t<decltype(std::declval<Body>().op)>>;
    else return true;
  }();

  // The parts, one after the other.
  template <bool Split>
  void run_list() {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (run_part<Split, I>(), ...);
    }(std::make_index_sequence<parts_of(C, Split).count>());
  }
  template <bool Split, std::size_t I>
  void run_part() {
    constexpr level_part p = parts_of(C, Split).all[I];
    here_.template before<Split, I>();
    if (here_.template takes_part<Split, I>()) {
      if constexpr (p.across) run_on<p.what, true, p.detour>(*of_.across_, of_.alike_, p);
      else run_on<p.what, false, p.detour>(of_.inside_, of_.nodes_.members(of_.node_), p);
    }
    here_.template after<Split, I>([&](std::span<T const> left, std::span<T> right) {
      auto* const result = reinterpret_cast<std::byte*>(right.data());
      std::byte const* const sources[] = {reinterpret_cast<std::byte const*>(left.data()), result};
      body_.in_bytes()(sources, 2, &result, 1, right.size_bytes(), {});
    });
  }

  // The algorithm that was named for the level, if it serves the part.
  template <collective P, bool Across, bool Uneven>
  using serving =
      typename detail::serving<std::conditional_t<Across, typename Levels::across, typename Levels::inside>,
                               std::conditional_t<Across, typename Transport::across, typename Transport::inside>, P,
                               commutative, Uneven>::type;

  template <collective P, bool Across, bool Detour, class Comm>
  void run_on(Comm& comm, std::vector<int> const& members, level_part const& part) {
    how_.timeout = std::max<std::chrono::nanoseconds>(end_.left(), std::chrono::milliseconds(1));
    int const part_root = here_.root_of(part);
    std::span<T> const from = here_.from(part), to = here_.to(part);
    auto const counts_of = [&](level_part const& p) { return here_.counts_of(p); };
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
  two_level_rank<C, T, Ragged, layout> here_;
  options how_{};
};

}  // namespace tutti::detail
