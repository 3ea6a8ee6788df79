// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on device memory among the ranks of any communicator, by whatever connects their devices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <numeric>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/call/check_arguments.hpp"
#include "tutti/collective/all_or_none.hpp"
#include "tutti/collective/barrier.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/type_name.hpp"
#include "tutti/core/unwinding.hpp"
#include "tutti/device/front/accessible.hpp"
#include "tutti/device/front/collectives.hpp"
#include "tutti/device/front/ragged.hpp"
#include "tutti/device/front/rows.hpp"
#include "tutti/device/ipc/cuda_ipc.hpp"
#include "tutti/device/nccl/cuda_nccl.hpp"
#include "tutti/device/on/bucket.hpp"
#include "tutti/device/on/list.hpp"
#include "tutti/device/on/nodes.hpp"
#include "tutti/device/on/options.hpp"
#include "tutti/device/staged/batch.hpp"
#include "tutti/device/staged/messages.hpp"
#include "tutti/device/staged/outbox.hpp"
#include "tutti/device/two_level/cuda_two_level.hpp"

namespace tutti {

// Ranks that each pass a buffer of their device; made by `on`. The calls are those of device/front/collectives.hpp.
template <class D, transport Transport>
  requires detail::sharing_device<D> && detail::cooperative_device<D> && detail::staging_device<D> &&
           detail::divisible<Transport>
class cuda_ranks {
 public:
  using device_type = D;

  // Communicator and device must outlive it.
  cuda_ranks(communicator<Transport>& comm, D const& on, on_options<D> const& how, std::source_location where)
      : comm_{comm}, on_{on}, stream_{how.stream} {
    detail::node_map const nodes = detail::find_nodes(comm, how, where);
    detail::all_or_none(comm, "allocate memory for messages", where,
                        [&] { messages_.emplace(comm, on, how.slices.slice); });
    bool const required = how.path == device_path::nccl;
    if (how.path != device_path::staged && !required) take_memory_path(how, nodes, where);
    if (ipc_ || levels_) open_outbox(how.slices.slice, nodes, where);
    if (!ipc_)
      across_.emplace(comm, on, how.slices,
                      required                          ? detail::nccl_use::required
                      : how.path == device_path::staged ? detail::nccl_use::never
                                                        : detail::nccl_use::if_possible,
                      where);
  }

  // During an exception, ends the calls in flight of all ranks: a device waits for them when memory is released.
  ~cuda_ranks() {
    if (!unwinding_.begun()) return;
    if (across_) across_->give_up();
    if (levels_) levels_->give_up();
    if (ipc_) ipc_->give_up();
  }

  int rank() const noexcept { return comm_.rank(); }
  int size() const noexcept { return comm_.size(); }
  D const& on() const noexcept { return on_; }
  device_path path() const noexcept {
    if (ipc_) return device_path::ipc;
    if (levels_) return device_path::two_level;
    return across_->has_nccl() ? device_path::nccl : device_path::staged;
  }

  // Completes when everything that the stream was given so far has run, or at a fault, which it then throws.
  tutti::work work(detail::passed_stream<D> stream = {}, std::source_location where = std::source_location::current()) {
    if (ipc_) return ipc_->work(named(stream), where);
    if (levels_) return levels_->work(named(stream), where);
    return across_->work(named(stream), where);
  }

  // Allocates memory of this rank's device, which lives as long as this object. All ranks call it with the same count. On
  // the path `ipc`, peers read it in place in calls with device_options::symmetric, and in messages. With
  // TUTTI_NVLS=1 (not yet tested on hardware), an NVLink switch that reaches all GPUs computes sums in_any_order of it.
  //
  //   auto gradient = ranks.allocate<float>(n), result = ranks.allocate<float>(n);
  //   tutti::all_reduce(ranks, gradient, result, tutti::sum{}, {.symmetric = true});
  template <element T>
  std::span<T> allocate(std::size_t count, std::source_location where = std::source_location::current()) {
    if (ipc_) {
      std::span<T> const out = ipc_->template allocate<T>(count, where);
      if (auto const* const group = ipc_->shared_group(); group != nullptr && count > 0) {
        messages_->outbox().add(out.size_bytes(),
                                group->memory().find_registered(out.data(), out.size_bytes()).memory->at);
        barrier(comm_, {}, where);  // no rank sends from this memory before all know it
      }
      return out;
    }
    if (!detail::is_possible_size<T>(count))
      detail::refuse_impossible_size(rank(), "the array of allocate", count, where);
    return {reinterpret_cast<T*>(allocated_.emplace_back(on_, count * sizeof(T)).data()), count};
  }

  // Describes how calls are carried out, and why.
  std::string explain() const {
    if (ipc_) return ipc_->explain() + messages_from_devices();
    std::string const begin = detail::join({"rank ", rank(), " of ", size(), " on ", std::string(on_.text()), ": "});
    std::string const staged = across_->explain(), why_not = across_->why_not();
    std::string const no_nccl = why_not.empty() ? "" : "\nNCCL is not used: " + why_not;
    if (!levels_) return detail::join({begin, staged, ", because ", why_staged_, no_nccl});
    return detail::join(
        {begin,
         "all_reduce, reduce, reduce_scatter, broadcast and all_gather take two levels. In all other collectives, _v "
         "forms, fused operations, wire types, reductions with two element types, calls that name another algorithm, "
         "and messages between nodes, ",
         staged, " among all ranks.\n", levels_->explain(), messages_from_devices(), no_nccl});
  }

  // -- For windows: null on other paths than `ipc`, and why.
  cuda_ipc<D, Transport>* near() noexcept { return ipc_ ? &*ipc_ : nullptr; }
  std::string_view why_not_near() const noexcept { return why_staged_; }

  // -- For the messages and the collectives.
  communicator<Transport>& host() noexcept { return comm_; }
  detail::device_messages<D, Transport>& messages() { return *messages_; }
  // Messages with `native`. Returns the results of the receives, in their order, when the stream has been given all.
  std::vector<received> run_native(char const* name, std::span<detail::transfer const> all,
                                   device_options<D> const& how, std::source_location where) {
    if (across_) return across_->run(name, all, with_stream(how), where);
    detail::refuse(rank(), detail::join({"NCCL carries out no ", name, " where ranks read each other's memory"}),
                   "leave the algorithm automatic, or pass {.path = tutti::device_path::nccl} to on", where);
  }
  detail::device_bucket<D>& bucket() noexcept { return bucket_; }
  device_options<D> with_stream(device_options<D> how) const {
    how.stream = named(how.stream);
    return how;
  }
  template <class Algorithm, collective C, class In, class Out, class Op>
  void combine(detail::device_call<D, In, Out> call, Op const& op) {
    call.how = with_stream(call.how);
    if (ipc_) return ipc_->template combine<Algorithm, C>(call, op);
    if constexpr (detail::is_row_wise<Op>) combine_rows<Algorithm>(call, op);
    else combine_by_host<Algorithm, C>(call, op);
  }
  template <class Algorithm, collective C, class Word>
  void move(detail::device_call<D, Word, Word> call) {
    call.how = with_stream(call.how);
    if (ipc_) return ipc_->template move<Algorithm, C>(call);
    if constexpr (levels_type::template moves<Algorithm, C>)
      if (levels_ && levels_->serves(call.what)) return levels_->template move<C>(call);
    if constexpr (nccl_or_staged::template has_algorithm<Algorithm, C>) across_->template move<Algorithm, C>(call);
    else refuse_algorithm<Algorithm>(C, call.where);
  }

 private:
  using nccl_or_staged = cuda_nccl<D, Transport>;
  using levels_type = cuda_two_level<D, Transport>;

  template <class Algorithm, collective C, class In, class Out, class Op>
  void combine_by_host(detail::device_call<D, In, Out> const& call, Op const& op) {
    if constexpr (levels_type::template combines<Algorithm, C, In, Out, Op>)
      if (levels_ && levels_->serves(call.what)) return levels_->template combine<C>(call, op);
    if constexpr (nccl_or_staged::template has_algorithm<Algorithm, C>)
      across_->template combine<Algorithm, C>(call, op);
    else refuse_algorithm<Algorithm>(C, call.where);
  }
  // Sums of rows, then the rows.
  template <class Algorithm, class In, class Out, class How, class Epilogue>
  void combine_rows(detail::device_call<D, In, Out> const& call, detail::row_wise<How, Epilogue> const& op) {
    auto const carry_out = [&](In* sums) {
      combine_by_host<Algorithm, collective::all_reduce>(detail::call_for_sums(call, sums), op.how);
      detail::finish_rows(on_, call, sums, op);
    };
    detail::expect_accessible<collective::all_reduce>(on_, rank(), call);
    if constexpr (std::is_same_v<In, Out>) carry_out(call.out);
    else bucket_.template with<In>(comm_, call.given.at(0, 0).count, call.how.stream, call.where, carry_out);
  }

  detail::stream_of<D> named(detail::stream_of<D> stream) const {
    return stream == detail::stream_of<D>{} ? stream_ : stream;
  }

  static std::string messages_from_devices() {
    return detail::join({"\nmessages of more than ", detail::message_outbox::max_bytes_by_host,
                         " bytes between ranks of a node: their receiver copies them from the sender's device"});
  }

  // -- The choice of the path, the same at all ranks.
  // Takes a path on which ranks read each other's memory, or notes why they cannot.
  void take_memory_path(on_options<D> const& how, detail::node_map const& nodes, std::source_location where) {
    bool const levels = how.path == device_path::two_level || (how.path == device_path::automatic && nodes.count() > 1);
    if (auto const why = levels ? detail::objection_to_levels(nodes) : objection_to_ipc()) {
      if (how.path != device_path::automatic)
        detail::refuse(rank(), detail::join({"the ranks cannot take the path ", name(how.path), ": ", *why}),
                       "leave the path automatic, or change where ranks run", where);
      why_staged_ = *why;
      return;
    }
    try {
      if (levels) {
        levels_.emplace(comm_, on_, nodes, how.arena, how.slices, where);
        why_staged_ = detail::join({"the ranks are on ", nodes.text()});
      } else {
        ipc_.emplace(comm_, on_, how.arena, where);
      }
    } catch (error const& e) {  // at all ranks
      if (how.path != device_path::automatic || e.code() != error_code::system) throw;
      why_staged_ = e.happened();
    }
  }
  // Gives ranks that read each other's memory some for messages.
  void open_outbox(std::size_t slice, detail::node_map const& nodes, std::source_location where) {
    std::size_t const slot = detail::slices(slice, detail::access_bytes) * detail::access_bytes;
    auto const open = [&](auto& group, std::vector<int> const& members) {
      auto const at_member = group.memory().add(detail::message_outbox::slots * slot, [](std::byte*) {}, where);
      std::vector<std::byte*> at(static_cast<std::size_t>(size()));
      for (std::size_t i = 0; i < members.size(); ++i) at[static_cast<std::size_t>(members[i])] = at_member[i];
      messages_->outbox().add_slots(slot, std::move(at));
    };
    std::vector<int> all(static_cast<std::size_t>(size()));
    std::iota(all.begin(), all.end(), 0);
    detail::all_or_none(comm_, "allocate memory for messages", where, [&] {
      if (levels_) open(levels_->shared_group(), nodes.members(nodes.node_of(rank())));
      else if (auto* const group = ipc_->shared_group()) open(*group, all);
    });
  }
  std::optional<std::string> objection_to_ipc() const {
    if (size() <= detail::max_destinations) return {};
    return detail::join({size(), " ranks are too many to read each other's memory"});
  }
  template <class Algorithm>
  [[noreturn, gnu::cold]] void refuse_algorithm(collective what, std::source_location where) const {
    detail::refuse(rank(),
                   detail::join({detail::type_name<Algorithm>(), " does not serve ", name(what),
                                 " where data travel by way of the host, as they do here, because ", why_staged_}),
                   "use one_shot, or leave the choice to tutti", where);
  }

  communicator<Transport>& comm_;
  D const& on_;
  detail::stream_of<D> stream_;
  std::string why_staged_ = "the program asked for it";
  std::optional<cuda_ipc<D, Transport>> ipc_;
  std::optional<nccl_or_staged> across_;                           // if there is no ipc_
  std::optional<levels_type> levels_;                              // beside across_, which carries out the other calls
  std::list<detail::device_array<D, std::byte>> allocated_;        // if there is no ipc_
  std::optional<detail::device_messages<D, Transport>> messages_;  // in memory of those above, so it goes first
  detail::device_bucket<D> bucket_{on_};
  detail::unwinding unwinding_;
};

// The ranks of a communicator, each with buffers in memory of its device. Finds out how their devices can communicate: if all
// ranks can read each other's memory, which takes one node and devices with that ability, they do; if that holds inside each of
// several nodes, collectives take two levels; else NCCL carries them out, or data travel through the host or an MPI.
// `explain()` tells which, and why. All ranks call it together, and make the same calls in the same order. Every collective of
// device/front/collectives.hpp can be called; and send, recv and send_recv (device/staged/messages.hpp). Results have the bits of
// one_shot on the host, except for reductions in two levels or by NCCL: see cuda_two_level and cuda_nccl.
//
// Throws error: bad_argument, at all ranks, if they pass different paths or slices, a path that they cannot take, or an arena that is
// larger than memory can be; system, at all ranks, if one of them is out of memory, or cannot share memory although the path that was
// named needs it; the errors of all_gather and subgroup.
//
//   auto comm = tutti::init();
//   tutti::cuda_device gpu = tutti::cuda_device_of(comm.local_rank());
//   auto ranks = tutti::on(comm, gpu, {.stream = stream});
//   tutti::all_reduce(ranks, gradient, tutti::mean{});
template <class D, transport Transport>
  requires detail::sharing_device<D> && detail::cooperative_device<D> && detail::staging_device<D> &&
           detail::divisible<Transport>
[[nodiscard]] cuda_ranks<D, Transport> on(communicator<Transport>& comm, D const& device, on_options<D> const& how = {},
                                          std::source_location where = std::source_location::current()) {
  return {comm, device, how, where};
}
template <class D, transport Transport>
void on(communicator<Transport>&, D const&&,  // the device must outlive the ranks; keep it in a variable
        on_options<D> const& = {}, std::source_location = {}) = delete;

}  // namespace tutti
