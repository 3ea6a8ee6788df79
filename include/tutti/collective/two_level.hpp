// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algorithm two_level: ranks of a node work together through the memory that they share, and one of them, or each for
// its part of the message, works with those that stand in its place on other nodes.
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

// The stand-in of a rooted call is the local rank that stands for its node, the same on all nodes.
template <class Transport>
template <class Levels, collective C, class Body>
struct levels<Transport>::parts {
  using T = typename Body::element;

  levels& of;
  detail::running_call<Transport>& call;
  Body body;
  deadline end = deadline::after(call.timeout());
  options how{};

  void run(int root, surfaces<T>& memory, std::size_t elements) {
    T const* const in = memory.input.data;
    T* const out = memory.output.data;
    if constexpr (C == collective::barrier) barrier();
    else if constexpr (C == collective::broadcast) broadcast(std::span(out, elements), root);
    else if constexpr (C == collective::all_reduce) all_reduce(std::span(in, elements), std::span(out, elements));
    else if constexpr (C == collective::reduce) reduce(std::span(in, elements), out, root);
    else if constexpr (C == collective::reduce_scatter) reduce_scatter(memory);
    else if constexpr (C == collective::all_gather) all_gather(memory);
    else if constexpr (C == collective::gather) gather(memory, root);
    else if constexpr (C == collective::scatter) scatter(memory, root);
  }

 private:
  static constexpr bool commutative = [] {
    if constexpr (Body::reduces) return is_commutative<std::remove_cvref_t<decltype(std::declval<Body>().op)>>;
    else return true;
  }();
  template <collective P, bool Ragged = false>
  using within =
      typename detail::serving<typename Levels::inside, typename Transport::inside, P, commutative, Ragged>::type;
  template <collective P, bool Ragged = false>
  using between =
      typename detail::serving<typename Levels::across, typename Transport::across, P, commutative, Ragged>::type;

  int nodes() const { return of.nodes_.count(); }
  int size() const { return of.inside_.size(); }
  int stand_in_for(int root) const { return of.nodes_.even() ? of.nodes_.local_rank(root) : 0; }
  int home_of(int root) const { return of.nodes_.node_of(root); }
  bool at_home_of(int root) const { return of.node_ == home_of(root); }
  // Nodes are uneven, and the root is not its node's first rank: what it has goes through that one.
  bool detours(int root) const { return of.nodes_.local_rank(root) != stand_in_for(root); }
  T* scratch(std::size_t n) { return reinterpret_cast<T*>(of.whole_.scratch.at_least(n * sizeof(T))); }

  template <class F>
  void inside(F&& f) {
    part(of.inside_, of.nodes_.members(of.node_), f);
  }
  template <class F>
  void across(F&& f) {
    if (of.across_) part(*of.across_, of.alike_, f);
  }
  template <class Comm, class F>
  void part(Comm& comm, std::vector<int> const& members, F&& f) {
    how.timeout = std::max<std::chrono::nanoseconds>(end.left(), std::chrono::milliseconds(1));
    try {
      f(comm);
    } catch (error const& e) {
      of.whole_.report_part(e, members, call.timeout(), call.where());
    }
  }

  // -- Parts of more than one collective.

  // From the first rank of the root's node to the root, or back.
  void bring(std::span<T const> from, std::span<T> to, int root) {
    int const target = of.nodes_.local_rank(root);
    std::vector<std::size_t> counts(static_cast<std::size_t>(size()));
    counts[static_cast<std::size_t>(target)] = from.size();
    inside([&](auto& comm) {
      tutti::scatter_v(comm, from, counts, of.local_ == target ? to : std::span<T>(), {}, 0, how, call.where());
    });
  }
  void fetch(std::span<T const> from, std::span<T> to, int root) {
    int const source = of.nodes_.local_rank(root);
    std::vector<std::size_t> counts(static_cast<std::size_t>(size()));
    counts[static_cast<std::size_t>(source)] = to.size();
    inside([&](auto& comm) {
      tutti::gather_v(comm, of.local_ == source ? from : std::span<T const>(), to, counts, {}, 0, how, call.where());
    });
  }
  // The elements of each node's ranks, of `each` elements a rank; ranks of a node follow each other.
  std::vector<std::size_t> node_counts(std::size_t each) const {
    std::vector<std::size_t> out;
    for (int node = 0; node < nodes(); ++node) out.push_back(each * static_cast<std::size_t>(of.nodes_.size(node)));
    return out;
  }
  extent own_node(std::size_t each) const {
    return {each * static_cast<std::size_t>(of.nodes_.members(of.node_)[0]), each * static_cast<std::size_t>(size())};
  }
  std::size_t all(std::size_t each) const { return each * static_cast<std::size_t>(of.whole_.ranks()); }

  // -- The collectives.

  void barrier() {
    auto const meet = [&](auto& comm) { tutti::barrier(comm, how, call.where()); };
    inside(meet);
    if (of.local_ == 0) across(meet);
    inside(meet);
  }

  void broadcast(std::span<T> data, int root) {
    int const stand_in = stand_in_for(root);
    auto const inside_from = [&](int source) {
      inside(
          [&](auto& comm) { tutti::broadcast<within<collective::broadcast>>(comm, data, source, how, call.where()); });
    };
    bool const first = detours(root) && at_home_of(root);
    if (first) inside_from(of.nodes_.local_rank(root));
    if (of.local_ == stand_in)
      across([&](auto& comm) {
        tutti::broadcast<between<collective::broadcast>>(comm, data, home_of(root), how, call.where());
      });
    if (!first) inside_from(stand_in);
  }

  void all_reduce(std::span<T const> in, std::span<T> out) {
    auto const op = detail::bare_operation(body);
    auto const reduce_across = [&](std::span<T> data) {
      across(
          [&](auto& comm) { tutti::all_reduce<between<collective::all_reduce>>(comm, data, op, how, call.where()); });
    };
    if (of.nodes_.even() && size() > 1 && in.size_bytes() >= least_split_bytes) {
      constexpr std::size_t grain = sizeof(T) < cache_line ? cache_line / sizeof(T) : 1;
      std::vector<std::size_t> counts;
      for (int q = 0; q < size(); ++q) counts.push_back(tutti::part(in.size(), size(), q, grain).count);
      extent const mine = tutti::part(in.size(), size(), of.local_, grain);
      std::span<T> const own = out.subspan(mine.begin, mine.count);
      inside([&](auto& comm) {
        tutti::reduce_scatter_v<within<collective::reduce_scatter, true>>(comm, in, own, counts, op, how, call.where());
      });
      reduce_across(own);
      inside([&](auto& comm) {
        tutti::all_gather_v<within<collective::all_gather, true>>(comm, own, out, counts, {}, how, call.where());
      });
      return;
    }
    inside([&](auto& comm) { tutti::reduce<within<collective::reduce>>(comm, in, out, op, 0, how, call.where()); });
    if (of.local_ == 0) reduce_across(out);
    inside([&](auto& comm) { tutti::broadcast<within<collective::broadcast>>(comm, out, 0, how, call.where()); });
  }

  void reduce(std::span<T const> in, T* out, int root) {
    auto const op = detail::bare_operation(body);
    int const stand_in = stand_in_for(root);
    bool const stands = of.local_ == stand_in, is_root = of.whole_.rank() == root;
    std::span<T> result(is_root ? out : nullptr, is_root ? in.size() : 0);
    std::span<T> const partial = !stands ? std::span<T>() : is_root ? result : std::span(scratch(in.size()), in.size());
    inside([&](auto& comm) {
      tutti::reduce<within<collective::reduce>>(comm, in, partial, op, stand_in, how, call.where());
    });
    if (stands)
      across([&](auto& comm) {
        tutti::reduce<between<collective::reduce>>(comm, partial, op, home_of(root), how, call.where());
      });
    if (detours(root) && at_home_of(root)) bring(stands ? partial : std::span<T>(result.data(), 0), result, root);
  }

  void reduce_scatter(surfaces<T>& memory) {
    auto const op = detail::bare_operation(body);
    std::size_t const each = memory.output.where.at(0, of.whole_.rank()).count;
    std::span<T const> const in(memory.input.data, all(each));
    bool const stands = of.local_ == 0;
    std::span<T> const partial = stands ? std::span(scratch(in.size()), in.size()) : std::span<T>();
    inside([&](auto& comm) { tutti::reduce<within<collective::reduce>>(comm, in, partial, op, 0, how, call.where()); });
    extent const own = stands ? own_node(each) : extent{};
    std::span<T> const block = partial.subspan(own.begin, own.count);
    if (stands)
      across([&](auto& comm) {
        tutti::reduce_scatter_v<between<collective::reduce_scatter, true>>(comm, partial, block, node_counts(each), op,
                                                                           how, call.where());
      });
    inside([&](auto& comm) {
      tutti::scatter<within<collective::scatter>>(comm, block, std::span(memory.output.data, each), 0, how,
                                                  call.where());
    });
  }

  void all_gather(surfaces<T>& memory) {
    std::size_t const each = memory.input.where.at(0, of.whole_.rank()).count;
    std::span<T> const out(memory.output.data, all(each));
    extent const own = own_node(each);
    std::span<T> const block = out.subspan(own.begin, own.count);
    inside([&](auto& comm) {
      tutti::gather<within<collective::gather>>(comm, std::span(memory.input.data, each), block, 0, how, call.where());
    });
    if (of.local_ == 0)
      across([&](auto& comm) {
        tutti::all_gather_v<between<collective::all_gather, true>>(comm, block, out, node_counts(each), {}, how,
                                                                   call.where());
      });
    inside([&](auto& comm) { tutti::broadcast<within<collective::broadcast>>(comm, out, 0, how, call.where()); });
  }

  void gather(surfaces<T>& memory, int root) {
    std::size_t const each = memory.input.where.at(0, of.whole_.rank()).count;
    int const stand_in = stand_in_for(root);
    bool const stands = of.local_ == stand_in, is_root = of.whole_.rank() == root;
    extent const own = own_node(each);
    // Blocks of all ranks at the root's node, and of its own elsewhere.
    std::span<T> const out(is_root ? memory.output.data : nullptr, is_root ? all(each) : 0);
    std::span<T> gathered, block;
    if (stands && at_home_of(root)) {
      gathered = is_root ? out : std::span(scratch(all(each)), all(each));
      block = gathered.subspan(own.begin, own.count);
    } else if (stands) {
      block = {scratch(own.count), own.count};
    }
    inside([&](auto& comm) {
      tutti::gather<within<collective::gather>>(comm, std::span(memory.input.data, each), block, stand_in, how,
                                                call.where());
    });
    if (stands)
      across([&](auto& comm) {
        tutti::gather_v<between<collective::gather, true>>(comm, block, gathered, node_counts(each), {}, home_of(root),
                                                           how, call.where());
      });
    if (detours(root) && at_home_of(root)) bring(gathered, out, root);
  }

  void scatter(surfaces<T>& memory, int root) {
    std::size_t const each = memory.output.where.at(0, of.whole_.rank()).count;
    int const stand_in = stand_in_for(root);
    bool const stands = of.local_ == stand_in, is_root = of.whole_.rank() == root;
    extent const own = own_node(each);
    std::span<T const> whole(is_root ? memory.input.data : nullptr, is_root ? all(each) : 0);
    if (detours(root) && at_home_of(root)) {
      std::span<T> const fetched = stands ? std::span(scratch(all(each)), all(each)) : std::span<T>();
      fetch(whole, fetched, root);
      whole = fetched;
    }
    std::span<T> block;
    // In place at the root's node, where nothing is written.
    if (stands && at_home_of(root)) block = {const_cast<T*>(whole.data()) + own.begin, own.count};
    else if (stands) block = {scratch(own.count), own.count};
    if (stands)
      across([&](auto& comm) {
        tutti::scatter_v<between<collective::scatter, true>>(comm, whole, node_counts(each), block, {}, home_of(root),
                                                             how, call.where());
      });
    inside([&](auto& comm) {
      tutti::scatter<within<collective::scatter>>(comm, block, std::span(memory.output.data, each), stand_in, how,
                                                  call.where());
    });
  }
};

}  // namespace tutti::detail
