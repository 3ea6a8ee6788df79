// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on device memory among ranks of several nodes: the ranks of a node read each other's memory, and between nodes
// data travel among the ranks that have the same place in their nodes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/call/check_arguments.hpp"
#include "tutti/collective/all_or_none.hpp"
#include "tutti/core/nodes.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/front/collectives.hpp"
#include "tutti/device/front/ragged.hpp"
#include "tutti/device/ipc/cuda_ipc.hpp"
#include "tutti/device/model/growth.hpp"
#include "tutti/device/nccl/cuda_nccl.hpp"
#include "tutti/device/two_level/level_operations.hpp"
#include "tutti/device/two_level/node_shares.hpp"
#include "tutti/device/two_level/objections.hpp"
#include "tutti/transport/absence.hpp"

namespace tutti {

// The ranks of a communicator on nodes that have the same number of ranks, two or more. All ranks create it together and make
// the same calls in the same order. Communicator and device must outlive it.
//
// how it works  a call is a list of calls of cuda_ipc inside the node and of cuda_nccl across nodes, which go as in cuda_staged
//               without NCCL. All ranks of a node take part across nodes at once, each with its share of the message or its block
// collectives   all_reduce, reduce, broadcast, all_gather and reduce_scatter with blocks of one size
// order         the ranks of each node in rank order, then the nodes in order of their lowest ranks, or in that of NCCL. Between
//               the two, values are rounded to their type. The same bits on all ranks, but not those of one_shot unless the
//               operation is exactly associative. Operations that do not commute need nodes of consecutive ranks
// streams       a call returns when the last data from another node have arrived, and cannot be captured
// errors        a failure of a part is a fault of the communicator, so all ranks throw it. Outputs are then undefined
template <class D, transport Transport>
  requires detail::sharing_device<D> && detail::cooperative_device<D> && detail::staging_device<D> &&
           detail::divisible<Transport>
class cuda_two_level {
 public:
  // Throws error: system, at all ranks, if ranks of a node cannot share memory of their devices, or a device cannot stage its own;
  // bad_argument; the errors of all_gather and subgroup.
  [[gnu::cold]] cuda_two_level(communicator<Transport>& comm, D const& on, detail::node_map nodes,
                               std::size_t arena_bytes, staging const& slices, std::source_location where)
      : comm_{comm},
        on_{on},
        nodes_{std::move(nodes)},
        node_{nodes_.node_of(comm.rank())},
        local_{nodes_.local_rank(comm.rank())} {
    for (int node = 0; node < nodes_.count(); ++node) alike_.push_back(rank_at(node, local_));
    inside_comm_.emplace(group_of(nodes_.members(node_), where));
    across_comm_.emplace(group_of(alike_, where));
    detail::all_or_none(comm, "share its device", where, [&] {
      try {
        inside_.emplace(*inside_comm_, on, arena_bytes, where);
      } catch (error const& e) {
        throw error(
            {.code = e.code(), .what = detail::in_part(nodes_.members(node_), e), .way_out = std::string(e.way_out())});
      }
    });
    detail::all_or_none(comm, "stage memory of its device", where,
                        [&] { across_.emplace(*across_comm_, on, slices, detail::nccl_use::if_possible, where); });
  }

  // Ends the calls in flight of all ranks, because of an exception.
  [[gnu::cold]] void give_up() noexcept {
    across_->give_up();
    inside_->give_up();
  }

  // Completes when everything that the stream was given so far has run, or at a fault, which it then throws.
  tutti::work work(detail::stream_of<D> stream, std::source_location where) { return inside_->work(stream, where); }

  std::string explain() const {
    return detail::join(
        {nodes_.text(), ", each of which reads its own memory; ", across_->explain(),
         " between nodes, among ranks with the same place in theirs. Values are combined in rank order inside "
         "each node, then in ",
         across_->has_nccl() ? "that of NCCL" : "the order of nodes", ".\nInside the node: ", inside_->explain()});
  }

  // -- For messages: the state that the ranks of this node share.
  detail::device_group<D, Transport>& shared_group() { return *inside_->shared_group(); }

  // -- Which calls are served; the others need all ranks at once.
  template <class Algorithm, collective C, class In, class Out, class Op>
  static constexpr bool combines =
      std::is_same_v<Algorithm, automatic> &&
      (C == collective::all_reduce || C == collective::reduce || C == collective::reduce_scatter) &&
      std::is_same_v<In, Out> && detail::is_bare_operation<Op>;
  template <class Algorithm, collective C>
  static constexpr bool moves =
      std::is_same_v<Algorithm, automatic> && (C == collective::broadcast || C == collective::all_gather);
  bool serves(detail::request const& r) const {
    bool const asked = r.algorithm == algorithm_id::automatic || r.algorithm == algorithm_id::two_level;
    bool const in_order = nodes_.consecutive() || (r.commutative && r.what != collective::reduce_scatter);
    return asked && !r.ragged && (in_order || !reduces(r.what));
  }

  // -- For the collectives.
  template <collective C, class T, class Op>
  void combine(detail::device_call<D, T, T> const& c, Op const& op) {
    call current = begin(c);
    auto const inside = detail::operation_inside<T>(op);
    auto const across = detail::operation_across<T>(op, comm_.size());
    if constexpr (C == collective::all_reduce) all_reduce_of(current, c, inside, across);
    else if constexpr (C == collective::reduce) reduce_of(current, c, inside, across);
    else reduce_scatter_of(current, c, inside, across);
  }
  template <collective C, class Word>
  void move(detail::device_call<D, Word, Word> const& c) {
    call current = begin(c);
    if constexpr (C == collective::broadcast) broadcast_of(current, c);
    else all_gather_of(current, c);
  }

 private:
  using options = device_options<D>;
  using counts = std::vector<std::size_t>;
  template <class T>
  using arguments = detail::device_call<D, T, T>;

  // A call while its parts are carried out.
  struct call {
    options how;
    std::source_location where;
    detail::deadline end;
  };

  int locals() const { return nodes_.size(0); }
  int rank_at(int node, int local) const { return nodes_.members(node)[static_cast<std::size_t>(local)]; }

  // A group whose calls also end with a fault of all ranks.
  communicator<Transport> group_of(std::vector<int> const& members, std::source_location where) {
    communicator<Transport> out = comm_.subgroup(members, where);
    out.engine().fault_outside = [&whole = comm_.engine()] { return whole.poll_fault(); };
    return out;
  }

  template <class T>
  call begin(arguments<T> const& c) {
    comm_.engine().expect_no_fault(c.where);
    if (on_.capturing(c.how.stream))
      detail::refuse(
          comm_.rank(),
          detail::join({name(c.what.what), " among nodes was called on a stream that is being captured into a graph"}),
          "call it outside of graphs, because the host sends its messages", c.where);
    return {{.stream = c.how.stream}, c.where, detail::deadline::after(comm_.engine().timeout_for(c.how.timeout))};
  }

  // -- Parts. part(ranks, how) makes a call among the ranks of a level.
  template <class Part>
  void inside(call& current, Part const& part) {
    run(current, nodes_.members(node_), [&] { part(*inside_, current.how); });
  }
  // Sends only what earlier parts have completed: a fault leaves memory as it was. NCCL's part has ended when it returns, too.
  template <class Part>
  void across(call& current, Part const& part) {
    run(current, nodes_.members(node_), [&] { inside_->work(current.how.stream, current.where).wait(); });
    run(current, alike_, [&] {
      part(*across_, current.how);
      if (across_->has_nccl()) across_->work(current.how.stream, current.where).wait();
    });
  }
  template <class F>
  void run(call& current, std::vector<int> const& members, F const& f) {
    current.how.timeout = std::max<std::chrono::nanoseconds>(current.end.left(), std::chrono::milliseconds(1));
    try {
      f();
    } catch (error const& e) {
      if (e.code() == error_code::bad_argument) throw;
      inside_->give_up(e);
      auto const at = static_cast<std::size_t>(e.peer());  // beyond all if it is -1
      int const peer = at < members.size() ? members[at] : -1;
      comm_.engine().raise({e.code(), comm_.rank(), peer, detail::in_part(members, e)}, current.where);
    }
  }

  // The same number of elements at all ranks of the node. If one of them has no memory for it, that is a fault of all ranks.
  template <class T>
  T* scratch(call& current, std::size_t n) {
    std::byte* out = nullptr;
    run(current, nodes_.members(node_), [&] {
      out = scratch_.get(n * sizeof(T), [&](auto const& allocate) {
        detail::all_or_none(*inside_comm_, "allocate memory for a call", current.where, allocate, "",
                            {.timeout = current.how.timeout});
      });
    });
    return reinterpret_cast<T*>(out);
  }

  // -- Collectives.
  template <class T>
  void all_reduce_of(call& current, arguments<T> const& c, auto const& inside_op, auto const& across_op) {
    std::span<T> const out(c.out, c.what.count);
    std::span<T const> const in(c.in, out.size());
    counts const all = detail::node_shares<T>(in.size(), locals());
    std::span<T> const block = detail::node_share_of(out, locals(), local_);
    inside(current, [&](auto& ranks, options const& how) {
      detail::reduce_uneven_on_device(ranks, in, block, all, inside_op, how, c.where, c.what.sizes);
    });
    across(current, [&](auto& ranks, options const& how) {
      detail::reduce_on_device<automatic, collective::all_reduce>(ranks, block, block, across_op, 0, how, c.where,
                                                                  c.what.sizes);
    });
    inside(current, [&](auto& ranks, options const& how) { all_gather_v(ranks, block, out, all, {}, how, c.where); });
  }

  template <class T>
  void reduce_of(call& current, arguments<T> const& c, auto const& inside_op, auto const& across_op) {
    std::span<T const> const in(c.in, c.what.count);
    counts const all = detail::node_shares<T>(in.size(), locals());
    std::span<T> const block(scratch<T>(current, std::ranges::max(all)), all[static_cast<std::size_t>(local_)]);
    int const home = nodes_.node_of(c.what.root);
    inside(current,
           [&](auto& ranks, options const& how) { reduce_scatter_v(ranks, in, block, all, inside_op, how, c.where); });
    across(current, [&](auto& ranks, options const& how) { reduce(ranks, block, across_op, home, how, c.where); });
    if (node_ != home) return;
    std::span<T> const out(c.out, c.out != nullptr ? in.size() : 0);
    inside(current, [&](auto& ranks, options const& how) {
      gather_v(ranks, block, out, all, {}, nodes_.local_rank(c.what.root), how, c.where);
    });
  }

  // The blocks of the ranks of a node are adjacent.
  template <class T>
  void reduce_scatter_of(call& current, arguments<T> const& c, auto const& inside_op, auto const& across_op) {
    auto const nodes = static_cast<std::size_t>(nodes_.count());
    std::size_t const each = c.what.count, at_node = each * static_cast<std::size_t>(locals());
    std::span<T> const partial(scratch<T>(current, each * nodes), each * nodes);
    for (std::size_t node = 0; node < nodes; ++node)
      inside(current, [&](auto& ranks, options const& how) {
        reduce_scatter(ranks, std::span<T const>(c.in + node * at_node, at_node), partial.subspan(node * each, each),
                       inside_op, how, c.where);
      });
    across(current, [&](auto& ranks, options const& how) {
      reduce_scatter(ranks, partial, std::span<T>(c.out, each), across_op, how, c.where);
    });
  }

  // Every rank of the root's node sends its share of the message to the other nodes.
  template <class Word>
  void broadcast_of(call& current, arguments<Word> const& c) {
    // The root's memory is only read.
    std::span<Word> const data(c.out != nullptr ? c.out : const_cast<Word*>(c.in), c.given.at(0, 0).count);
    counts const all = detail::node_shares<Word>(data.size(), locals());
    std::span<Word> const block = detail::node_share_of(data, locals(), local_);
    int const home = nodes_.node_of(c.what.root);
    if (node_ == home)
      inside(current, [&](auto& ranks, options const& how) {
        broadcast(ranks, data, nodes_.local_rank(c.what.root), how, c.where);
      });
    across(current, [&](auto& ranks, options const& how) { broadcast(ranks, block, home, how, c.where); });
    if (node_ != home)
      inside(current,
             [&](auto& ranks, options const& how) { all_gather_v(ranks, block, data, all, {}, how, c.where); });
  }

  // Each rank gets the blocks of the ranks in its place, then shares them with its node.
  template <class Word>
  void all_gather_of(call& current, arguments<Word> const& c) {
    std::size_t const each = c.got.at(0, 0).count;
    std::span<Word> const out(c.out, each * static_cast<std::size_t>(comm_.size()));
    auto const place_of = [&](int rank) { return each * static_cast<std::size_t>(rank); };
    auto const places = [&](std::vector<int> const& members) {
      counts at;
      for (int const rank : members) at.push_back(place_of(rank));
      return at;
    };
    across(current, [&](auto& ranks, options const& how) {
      all_gather_v(ranks, std::span<Word const>(c.in, each), out, counts(alike_.size(), each), places(alike_), how,
                   c.where);
    });
    for (int node = 0; node < nodes_.count(); ++node)
      inside(current, [&](auto& ranks, options const& how) {
        all_gather_v(ranks, out.subspan(place_of(rank_at(node, local_)), each), out,
                     counts(static_cast<std::size_t>(locals()), each), places(nodes_.members(node)), how, c.where);
      });
  }

  communicator<Transport>& comm_;
  D const& on_;
  detail::node_map nodes_;
  int node_, local_;
  std::vector<int> alike_;  // the ranks of across_, by node
  std::optional<communicator<Transport>> inside_comm_, across_comm_;
  detail::growing_memory<D> scratch_{on_};
  std::optional<cuda_ipc<D, Transport>> inside_;
  std::optional<cuda_nccl<D, Transport>> across_;
};

}  // namespace tutti
