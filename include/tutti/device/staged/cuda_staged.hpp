// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on device memory among the ranks of any host communicator. Slices travel through pinned memory, or go
// directly to an MPI that accepts device memory; values are combined on the device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <source_location>
#include <span>
#include <type_traits>
#include <vector>

#include "tutti/collective/all_reduce.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/device/front/algorithms.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/front/collectives.hpp"
#include "tutti/device/front/ragged.hpp"
#include "tutti/device/kernel/combine.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/device/staged/area.hpp"
#include "tutti/device/staged/call.hpp"
#include "tutti/device/staged/host_blocks.hpp"

namespace tutti {

// The ranks of a communicator, each with buffers in memory of its own device. All ranks create it together and make the
// same calls in the same order, which may be mixed with those of the communicator. Communicator and device must outlive
// it.
//
// how it works  a slice is copied to pinned memory, sent by the communicator's own collectives, copied back and
//               combined by the device, while other slices are in flight. If the communicator's MPI accepts device
//               memory (MPIX_Query_cuda_support; TUTTI_CUDA_AWARE=0 or 1 overrides it), no data pass through the host
// algorithms    one_shot for all collectives; two_shot for large all_reduce and reduce. Values are combined in rank
//               order, so results have the bits of one_shot on the host; see cuda_combine for what a device may fuse
// streams       a call is ordered on its stream. It returns when the last slice has arrived and its copy was given to
//               the device, so it waits for earlier work of the stream and for the other ranks; it cannot be captured
//               in a graph
// errors        those of the communicator's collectives, on all ranks: mismatch, timeout, rank_lost, rank_left. A
//               failing device gives `system` on its rank and rank_left on the others. If a call of one slice fails,
//               outputs keep their values; a longer call, or one that the MPI carries out, may have written parts of
//               them
//
//   auto comm = tutti::init();
//   tutti::cuda_device gpu(comm.local_rank() % tutti::cuda_device_count());
//   tutti::cuda_staged ranks(comm, gpu);
//   tutti::all_reduce(ranks, gradient, tutti::mean{}, {.stream = stream});
template <detail::staging_device D, transport Transport>
class cuda_staged {
 public:
  using device_type = D;

  // Throws error: bad_argument; system on all ranks if one of them is out of memory; the errors of all_gather.
  [[gnu::cold]] cuda_staged(communicator<Transport>& comm, D const& on, staging const& how = {},
                            std::source_location where = std::source_location::current())
      : comm_(&comm),
        slice_(how.slice),
        hands_over_(detail::agree_on_staging(comm, how, where)),
        area_(detail::make_staging_area(comm, on, how, !hands_over_, where)) {}

  int rank() const noexcept { return comm_->rank(); }
  int size() const noexcept { return comm_->size(); }
  D const& on() const noexcept { return area_->on; }
  // Whether the MPI gets device memory directly.
  bool hands_over() const noexcept { return hands_over_; }

  static constexpr bool has_two_rounds(collective c) { return c == collective::all_reduce || c == collective::reduce; }
  // Algorithms that a call may name by their type; one from a list is checked when a call chooses it.
  template <class Algorithm, collective C>
  static constexpr bool has_algorithm = !serves<Algorithm, C> || std::is_same_v<Algorithm, one_shot> ||
                                        (std::is_same_v<Algorithm, tutti::two_shot> && has_two_rounds(C));

  // -- For the collectives.
  template <class Algorithm, collective C, class T>
  void move(detail::device_call<D, T, T> const& call) {
    algorithm_id const by = algorithm_of<Algorithm, C>(call, false);
    blocks const given = blocks_of(call.given, call.in != nullptr, deals(C)),
                 got = blocks_of(call.got, call.out != nullptr, collects(C));
    if (size() == 1) return copy_blocks(call.how.stream, call.out, got, call.in, given);
    std::size_t const max_block =
        block_elements(sizeof(T), sizeof(T), call.where) * (C == collective::broadcast ? ranks() : 1);
    journey trip(*comm_, *area_, call.how, call.where);
    trip.begin();
    if (C == collective::barrier) trip.await_stream();
    trip.template announce<C>(call.what, by, call.type, {});
    if constexpr (detail::may_accept_device_memory<Transport> && C != collective::barrier)
      if (hands_over_) return hand_over<C>(trip, call, given, got);
    if constexpr (C != collective::barrier) {
      std::size_t longest = std::max(detail::longest_of(given), detail::longest_of(got));
      if (call.what.ragged && C != collective::all_gather)
        all_reduce(*comm_, std::span(&longest, 1), max{}, trip.for_host(), call.where);
      auto const stride = [&](std::size_t slice) { return detail::slice_of(longest, max_block, slice).count; };
      trip.travel(
          detail::slices(longest, max_block), 1,
          [&](slot& s, std::size_t slice) {
            blocks const part = detail::slices_of(given, max_block, slice);
            copy_blocks(area_->down.get(), at<T>(s.down), detail::packed(part, stride(slice), 1), call.in, part);
          },
          [&](slot& s, std::size_t slice, int) {
            if (!call.what.ragged) return send<C>(trip, s, stride(slice) * sizeof(T), call.what.root);
            return send_ragged<C>(
                trip, s, detail::packed(detail::slices_of(given, max_block, slice), stride(slice), sizeof(T)),
                detail::packed(detail::slices_of(got, max_block, slice), stride(slice), sizeof(T)), call.what.root);
          },
          [&](slot& s, std::size_t slice, int) {
            blocks const part = detail::slices_of(got, max_block, slice);
            copy_blocks(area_->up.get(), call.out, part, at<T>(s.up), detail::packed(part, stride(slice), 1));
          });
    }
    trip.finish();
  }

  template <class Algorithm, collective C, class In, class Out, class Op>
  void combine(detail::device_call<D, In, Out> const& call, Op const& op) {
    auto const how = detail::in_stages<In>(detail::without_wire(op), size());
    constexpr bool in_parts = has_two_rounds(C) && detail::works_in_parts<Op>, in_shards = detail::has_shards<Op>;
    bool const prefers = in_shards || (in_parts && prefers_two_shot(call.what.bytes()));
    bool const two_shot = algorithm_of<Algorithm, C>(call, prefers) == algorithm_id::two_shot;
    if (two_shot && !in_parts) detail::refuse_arrays_in_parts(rank(), call.where);
    if (!two_shot && in_shards) detail::refuse_shards_in_whole(rank(), call.where);
    if (size() == 1) {
      if (C == collective::exclusive_scan) return;
      std::vector<In const*> const from{call.in + call.given.at(0, 0).begin};
      return combine_sources(call.how.stream, from, call.out, call.got.at(0, 0).count, how);
    }
    if (size() > detail::max_sources)
      detail::refuse(rank(),
                     detail::join({"a device combines the values of at most ", detail::max_sources,
                                   " ranks, but there are ", size()}),
                     "combine within groups of ranks first", call.where);
    std::size_t const max_block = block_elements(sizeof(In), sizeof(Out), call.where);
    journey trip(*comm_, *area_, call.how, call.where);
    trip.begin();
    trip.template announce<C>(call.what, two_shot ? algorithm_id::two_shot : algorithm_id::one_shot, call.type,
                              detail::name_of<Op>());
    if constexpr (in_parts)
      if (two_shot) combine_and_share<C>(trip, call, max_block, how);
    if constexpr (!in_shards)
      if (!two_shot) combine_all<C>(trip, call, max_block, how);
    trip.finish();
  }

 private:
  using slot = detail::staging_slot<D>;
  using journey = detail::staged_call<D, Transport>;
  using blocks = detail::block_list;

  std::size_t ranks() const { return static_cast<std::size_t>(size()); }
  std::size_t mine() const { return static_cast<std::size_t>(rank()); }
  template <class T>
  static T* at(detail::message_memory<D> const& memory) {
    return reinterpret_cast<T*>(memory.data());
  }

  // -- The choice of algorithm.
  // Two ranks send as much by either.
  bool prefers_two_shot(std::size_t bytes) const {
    return size() > 2 && bytes * ranks() > comm_->engine().tuned.table().devices.one_shot_by_host;
  }

  template <class Algorithm, collective C, class Call>
  algorithm_id algorithm_of(Call const& call, bool two_shot) const {
    static_assert(has_algorithm<Algorithm, C>, "cuda_staged has only one_shot, and two_shot for all_reduce and reduce");
    algorithm_id asked = call.how.algorithm;
    if constexpr (!std::is_same_v<Algorithm, automatic>)
      detail::named_algorithms<Algorithm>::template visit<C, void>(
          asked, call.where, [&](auto schedule) { asked = detail::id_of(schedule); });
    if (asked == algorithm_id::automatic) return two_shot ? algorithm_id::two_shot : algorithm_id::one_shot;
    if (asked != algorithm_id::one_shot && !(asked == algorithm_id::two_shot && has_two_rounds(C)))
      detail::refuse(rank(), detail::join({"cuda_staged has no ", name(C), " with ", name(asked)}),
                     has_two_rounds(C) ? "use one_shot or two_shot, or leave the choice to tutti"
                                       : "use one_shot, or leave the choice to tutti",
                     call.where);
    return asked;
  }

  // -- Slices. If there is room, blocks start at multiples of this many elements, so that all are aligned for packs.
  static constexpr std::size_t grain(std::size_t in_bytes, std::size_t out_bytes) {
    return std::max<std::size_t>(1, detail::cache_line / std::min(in_bytes, out_bytes));
  }
  static std::size_t padded(std::size_t n, std::size_t max_block, std::size_t in_bytes, std::size_t out_bytes) {
    std::size_t const whole = grain(in_bytes, out_bytes);
    return std::min(max_block, (n + whole - 1) / whole * whole);
  }
  // The maximal number of elements of a rank's block in one slice.
  std::size_t block_elements(std::size_t in_bytes, std::size_t out_bytes, std::source_location where) const {
    std::size_t const bytes = std::max(in_bytes, out_bytes), n = slice_ / ranks() / bytes;
    if (n == 0)
      detail::refuse(rank(),
                     detail::join({"one element of ", bytes, " bytes for each of ", size(),
                                   " ranks does not fit a slice of ", slice_}),
                     "create cuda_staged with larger slices", where);
    std::size_t const whole = grain(in_bytes, out_bytes);
    return n < whole ? n : n / whole * whole;
  }

  // The blocks of this rank on one side of a call: one for every rank, or a single one.
  blocks blocks_of(detail::layout const& where, bool has_any, bool all) const {
    if (!has_any) return {};
    return all ? detail::blocks_of(where, size()) : blocks{where.at(0, rank())};
  }

  // -- Copies.
  template <class T>
  void copy(detail::stream_of<D> stream, T* to, T const* from, std::size_t n) const {
    if (to != from && n > 0) area_->on.copy(stream, to, from, n * sizeof(T));
  }
  // Adjacent blocks on both sides are copied at once.
  template <class T>
  void copy_blocks(detail::stream_of<D> stream, T* to, blocks const& places, T const* from,
                   blocks const& sources) const {
    for (std::size_t q = 0; q < std::min(places.size(), sources.size());) {
      std::size_t const first = q;
      std::size_t n = 0;
      do n += sources[q++].count;
      while (q < sources.size() && places[q].begin == places[first].begin + n &&
             sources[q].begin == sources[first].begin + n);
      copy(stream, to + places[first].begin, from + sources[first].begin, n);
    }
  }

  // -- Messages.
  template <class F>
  work on_host(F const& call) {
    if constexpr (detail::may_accept_device_memory<Transport>)
      if (hands_over_) {
        call.template operator()<native>(*comm_);
        return {};
      }
    return call.template operator()<automatic>(async(*comm_));
  }
  // The messages of a slice with blocks of these bytes. The root of a broadcast sends where others receive.
  template <collective C>
  work send(journey const& trip, slot& s, std::size_t bytes, int root) {
    std::byte* const to = C == collective::broadcast && rank() == root ? s.down.data() : s.up.data();
    return on_host([&]<class Algorithm>(auto&& comm) {
      return detail::move_blocks_on_host<C, Algorithm>(comm, s.down.data(), to, bytes, root, trip.for_host(),
                                                       trip.where());
    });
  }
  template <collective C>
  work send_ragged(journey const& trip, slot& s, blocks const& given, blocks const& got, int root) {
    return on_host([&]<class Algorithm>(auto&& comm) {
      return detail::move_ragged_on_host<C, Algorithm>(comm, s.down.data(), given, s.up.data(), got, root,
                                                       trip.for_host(), trip.where());
    });
  }
  // Directly between the callers' buffers. The input of a broadcast's root is passed as writable, because MPI takes it
  // so.
  template <collective C, class T>
  void hand_over(journey& trip, detail::device_call<D, T, T> const& call, blocks const& given, blocks const& got) {
    trip.await_stream();
    int const root = call.what.root;
    if (call.what.ragged)
      detail::move_ragged_on_host<C, native>(*comm_, call.in, given, call.out, got, root, trip.for_host(), call.where);
    else
      detail::move_blocks_on_host<C, native>(*comm_, call.in, call.out != nullptr ? call.out : const_cast<T*>(call.in),
                                             std::max(detail::longest_of(given), detail::longest_of(got)), root,
                                             trip.for_host(), call.where);
    trip.finish();
  }

  // -- Kernels.
  // The received blocks of a slice, `stride` elements apart, at the place where the device combines them. This rank's
  // own block is read from the caller's buffer.
  template <class T>
  std::vector<T const*> sources(slot& s, std::size_t stride, T const* own) const {
    T const* const received = at<T>(s.up);
    T* const near = hands_over_ ? at<T>(s.up) : reinterpret_cast<T*>(s.sources.data());
    std::size_t const next = (mine() + 1) * stride;
    copy(area_->up.get(), near, received, mine() * stride);
    copy(area_->up.get(), near + next, received + next, ranks() * stride - next);
    std::vector<T const*> out;
    for (std::size_t q = 0; q < ranks(); ++q) out.push_back(q == mine() ? own : near + q * stride);
    return out;
  }
  template <class In, class Out, class How>
  void combine_sources(detail::stream_of<D> stream, std::vector<In const*> const& from, Out* to, std::size_t n,
                       How const& how) const {
    Out* const destinations[] = {to};
    cuda_combine(area_->on, stream, std::span(from), std::span<Out* const>(destinations), n, how);
  }

  // one_shot: each rank that receives a result combines the contributions of all ranks.
  template <collective C, class In, class Out, class How>
  void combine_all(journey& trip, detail::device_call<D, In, Out> const& call, std::size_t max_block, How const& how) {
    constexpr collective moves = C == collective::reduce_scatter ? collective::all_to_all
                                 : C == collective::reduce       ? collective::gather
                                                                 : collective::all_gather;
    blocks const given = blocks_of(call.given, true, deals(C));
    extent const own = given[deals(C) ? mine() : 0];
    std::size_t const longest = detail::longest_of(given);
    auto const stride = [&](std::size_t slice) {
      return padded(detail::slice_of(longest, max_block, slice).count, max_block, sizeof(In), sizeof(Out));
    };
    trip.travel(
        detail::slices(longest, max_block), 1,
        [&](slot& s, std::size_t slice) {
          blocks const part = detail::slices_of(given, max_block, slice);
          copy_blocks(area_->down.get(), at<In>(s.down), detail::packed(part, stride(slice), 1), call.in, part);
        },
        [&](slot& s, std::size_t slice, int) {
          return send<moves>(trip, s, stride(slice) * sizeof(In), call.what.root);
        },
        [&](slot& s, std::size_t slice, int) {
          auto const [begin, n] = detail::slice_of(own.count, max_block, slice);
          if (call.out == nullptr || n == 0) return;
          auto from = sources(s, stride(slice), call.in + own.begin + begin);
          if (C == collective::scan) from.resize(mine() + 1);
          if (C == collective::exclusive_scan) from.resize(mine());
          if (from.empty()) return;
          combine_sources(area_->up.get(), from, call.out + begin, n, detail::shifted_by(begin, how));
        });
  }

  // two_shot: each rank combines its block of a slice and shares the result. Slices are cut into blocks, whose copies are then
  // adjacent; or shards into slices, where ranks own shards.
  template <collective C, class In, class Out, class How>
  void combine_and_share(journey& trip, detail::device_call<D, In, Out> const& call, std::size_t max_block,
                         How const& how) {
    constexpr collective shares = C == collective::reduce ? collective::gather : collective::all_gather;
    constexpr bool in_shards = detail::has_shards<How>;
    std::size_t const count = call.what.count, max_slice = max_block * ranks();
    blocks shards;
    for (int q = 0; q < size(); ++q) shards.push_back(shard_of(count, size(), q));
    auto const stride = [&](std::size_t slice) {
      std::size_t const longest = in_shards ? detail::slice_of(shards[0].count, max_block, slice).count
                                            : detail::slices(detail::slice_of(count, max_slice, slice).count, ranks());
      return padded(longest, max_block, sizeof(In), sizeof(Out));
    };
    auto const part = [&](std::size_t slice) {
      if (in_shards) return detail::slices_of(shards, max_block, slice);
      auto const [begin, n] = detail::slice_of(count, max_slice, slice);
      blocks out;
      for (std::size_t q = 0; q < ranks(); ++q) {
        extent const block = detail::slice_of(n, stride(slice), q);
        out.push_back({begin + block.begin, block.count});
      }
      return out;
    };
    trip.travel(
        in_shards ? detail::slices(shards[0].count, max_block) : detail::slices(count, max_slice), 2,
        [&](slot& s, std::size_t slice) {
          blocks const all = part(slice);
          copy_blocks(area_->down.get(), at<In>(s.down), detail::packed(all, stride(slice), 1), call.in, all);
        },
        [&](slot& s, std::size_t slice, int round) {
          std::size_t const n = stride(slice);
          return round == 0 ? send<collective::all_to_all>(trip, s, n * sizeof(In), 0)
                            : send<shares>(trip, s, n * sizeof(Out), call.what.root);
        },
        [&](slot& s, std::size_t slice, int round) {
          blocks const all = part(slice);
          if (round == 1) {
            if (call.out == nullptr) return;
            return copy_blocks(area_->up.get(), call.out, all, at<Out>(s.up), detail::packed(all, stride(slice), 1));
          }
          extent const own = all[mine()];
          auto const from = sources(s, stride(slice), call.in + own.begin);
          Out* const result = reinterpret_cast<Out*>(s.result.data());
          combine_sources(area_->up.get(), from, result, own.count,
                          detail::shifted_by(in_shards ? own.begin - shards[mine()].begin : 0, how));
          s.combined.record(area_->up.get());
          s.combined.before(area_->down.get());
          copy(area_->down.get(), at<Out>(s.down), result, own.count);
          s.came_down.record(area_->down.get());
        });
  }

  communicator<Transport>* comm_;
  std::size_t slice_;
  bool hands_over_;
  std::unique_ptr<detail::staging_area<D>> area_;
};

}  // namespace tutti
