// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on device memory among the ranks of any host communicator. Slices travel through pinned memory, or go
// directly to an MPI that accepts device memory; values are combined on the device.
#pragma once

#include <cstddef>
#include <memory>
#include <source_location>
#include <type_traits>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/front/accessible.hpp"
#include "tutti/device/front/algorithms.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/kernel/combine.hpp"
#include "tutti/device/staged/area.hpp"
#include "tutti/device/staged/call.hpp"
#include "tutti/device/staged/rounds.hpp"

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
//   tutti::cuda_device gpu = tutti::cuda_device_of(comm.local_rank());
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
  cuda_staged(communicator<Transport>&, D const&&,  // the device must outlive the ranks; keep it in a variable
              staging const& = {}, std::source_location = {}) = delete;

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
    auto rounds = make_rounds();
    auto const given = rounds.blocks_of(call.given, call.in != nullptr, deals(C)),
               got = rounds.blocks_of(call.got, call.out != nullptr, collects(C));
    if (size() == 1) return rounds.copy_blocks(call.how.stream, call.out, got, call.in, given);
    std::size_t const max_block = rounds.block_elements(sizeof(T), sizeof(T), call.where) *
                                  static_cast<std::size_t>(C == collective::broadcast ? size() : 1);
    journey trip(*comm_, *area_, call.how, call.where);
    trip.begin();
    if (C == collective::barrier) trip.await_stream();
    trip.template announce<C>(call.what, by, call.type, {});
    if constexpr (detail::may_accept_device_memory<Transport> && C != collective::barrier)
      if (hands_over_) return rounds.template hand_over<C>(trip, call, given, got);
    if constexpr (C != collective::barrier) rounds.template move<C>(trip, call, given, got, max_block);
    trip.finish();
  }

  template <class Algorithm, collective C, class In, class Out, class Op>
  void combine(detail::device_call<D, In, Out> const& call, Op const& op) {
    static_assert(!detail::is_row_wise<Op>,
                  "cuda_staged has no epilogues on rows; the ranks of tutti::on have them on every path");
    detail::expect_accessible<C>(on(), rank(), call);  // by kernels; calls that only copy take any memory
    auto const how = detail::in_stages<In>(detail::without_wire(op), size());
    constexpr bool in_parts = has_two_rounds(C) && detail::works_in_parts<Op>, in_shards = detail::has_shards<Op>;
    bool const prefers = in_shards || (in_parts && prefers_two_shot(call.what.bytes()));
    bool const two_shot = algorithm_of<Algorithm, C>(call, prefers) == algorithm_id::two_shot;
    if (two_shot && !in_parts) detail::refuse_arrays_in_parts(rank(), call.where);
    if (!two_shot && in_shards) detail::refuse_shards_in_whole(rank(), call.where);
    auto rounds = make_rounds();
    if (size() == 1) {
      if (C == collective::exclusive_scan) return;
      std::vector<In const*> const from{call.in + call.given.at(0, 0).begin};
      return rounds.combine_sources(call.how.stream, from, call.out, call.got.at(0, 0).count, how);
    }
    if (size() > detail::max_sources)
      detail::refuse(rank(),
                     detail::join({"a device combines the values of at most ", detail::max_sources,
                                   " ranks, but there are ", size()}),
                     "combine within groups of ranks first", call.where);
    std::size_t const max_block = rounds.block_elements(sizeof(In), sizeof(Out), call.where);
    journey trip(*comm_, *area_, call.how, call.where);
    trip.begin();
    trip.template announce<C>(call.what, two_shot ? algorithm_id::two_shot : algorithm_id::one_shot, call.type,
                              detail::name_of<Op>());
    if constexpr (in_parts)
      if (two_shot) rounds.template combine_and_share<C>(trip, call, max_block, how);
    if constexpr (!in_shards)
      if (!two_shot) rounds.template combine_all<C>(trip, call, max_block, how);
    trip.finish();
  }

 private:
  using journey = detail::staged_call<D, Transport>;

  detail::staged_rounds<D, Transport> make_rounds() { return {*comm_, *area_, slice_, hands_over_}; }

  // -- The choice of algorithm.
  // Two ranks send as much by either.
  bool prefers_two_shot(std::size_t bytes) const {
    return size() > 2 &&
           bytes * static_cast<std::size_t>(size()) > comm_->engine().tuned.table().devices.one_shot_by_host;
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

  communicator<Transport>* comm_;
  std::size_t slice_;
  bool hands_over_;
  std::unique_ptr<detail::staging_area<D>> area_;
};

}  // namespace tutti
