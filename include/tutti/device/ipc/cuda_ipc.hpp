// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on device memory among processes of one node, which read each other's memory. Streams wait for each
// other. Kernels wait for each other only if every process has a GPU of its own, because kernels that share one may run
// in turn.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tutti/algorithm/one_shot.hpp"
#include "tutti/call/check_arguments.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/front/accessible.hpp"
#include "tutti/device/front/algorithms.hpp"
#include "tutti/device/front/collectives.hpp"
#include "tutti/device/front/ragged.hpp"
#include "tutti/device/front/rows.hpp"
#include "tutti/device/front/work.hpp"
#include "tutti/device/ipc/alone.hpp"
#include "tutti/device/ipc/calls.hpp"
#include "tutti/device/ipc/group.hpp"
#include "tutti/device/ipc/kernel_calls.hpp"
#include "tutti/device/ipc/kernels.hpp"
#include "tutti/device/ipc/rows.hpp"
#include "tutti/device/ipc/words.hpp"
#include "tutti/device/kernel/combine.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/tune/devices.hpp"

namespace tutti {

// Ranks that each pass a buffer of their device; see device/front/collectives.hpp for the calls, which may be made on
// any stream. Every rank has an arena, device memory that its peers read. A call copies the data that peers need there,
// in parts if they are larger than the arena, and each rank computes its own result from the arenas of the others.
// Registered buffers are read in place by calls that ask for it.
//
// By default, one_shot carries out a call, and two_shot a large all_reduce (tune/devices.hpp). If every rank has a
// device of its own, kernels may wait for each other: small collectives in which all ranks hear from all use packets,
// in which one store writes data and their flags, all_reduce by one_shot or two_shot is one kernel, for which
// there is a second memory as large as the arena, and a call may name any algorithm. all_reduce<ring>, for
// example, sends messages from device to device in one launch. Such a call takes an operation, not `fused`, and input
// and output of one type; if ranks fail, its output is undefined.
//
// Calls return before they have run. They allocate no device memory, except that a named algorithm, and rows with two
// types of elements among ranks that share a device, allocate if they need more than the calls before them; the ranks
// then meet. Calls that need not allocate may be captured in a graph, which all ranks then launch in place of the calls.
//
// All ranks create and destroy their cuda_ipc together, with arenas of the same size. A failure, including a rank that
// is late, gone or makes another call, is a fault of all ranks: streams run on, no call changes memory any more, and
// work and every later call throw the fault. Each element of an output then has either its old value or the right one,
// or the sum, if an epilogue on rows was to follow in a kernel of its own.
//
// Throws error: system, at all ranks, if one of them cannot share memory of its device; bad_argument; the errors of
// all_gather.
//
//   tutti::cuda_device gpu = tutti::cuda_device_of(comm.local_rank());
//   tutti::cuda_ipc ranks(comm, gpu);
//   tutti::all_reduce(ranks, in, out, tutti::sum{}, {.stream = stream});
//   tutti::work sum = ranks.work(stream);
//   sum.wait();
template <detail::sharing_device D, transport Transport>
  requires detail::cooperative_device<D>
class cuda_ipc {
 public:
  using device_type = D;
  static constexpr std::size_t usual_arena = std::size_t{16} << 20;

  // Communicator and device must outlive it.
  cuda_ipc(communicator<Transport>& comm, D const& on, std::size_t arena_bytes = usual_arena,
           std::source_location where = std::source_location::current())
      : comm_{comm}, on_{on} {
    if (size() > detail::max_destinations)
      detail::refuse(rank(), detail::join({size(), " ranks cannot share memory of devices"}),
                     detail::join({"use at most ", detail::max_destinations, " ranks"}), where);
    if (size() == 1) return;
    calls_.emplace(comm, on, arena_bytes, where);
    if (calls_->group().own_devices()) kernels_.emplace(on, rank(), size(), calls_->group(), where);
  }
  cuda_ipc(communicator<Transport>&, D const&&,  // the device must outlive the ranks; keep it in a variable
           std::size_t = usual_arena, std::source_location = {}) = delete;

  // Waits for the continuations of its works, at most for TUTTI_TIMEOUT, and not during an exception.
  ~cuda_ipc() { works_.close(usual_timeout()); }

  int rank() const noexcept { return comm_.rank(); }
  int size() const noexcept { return comm_.size(); }
  D const& on() const noexcept { return on_; }

  // Completes when everything that the stream was given so far has run, or at a fault, which it then throws.
  tutti::work work(detail::passed_stream<D> stream = {}, std::source_location where = std::source_location::current()) {
    detail::device_watch const* const watch = calls_ ? &group().watch() : nullptr;
    return works_.add(std::make_shared<detail::device_work<D>>(works_, on_, watch, stream, where));
  }

  // Registers memory of this rank's device, which peers then read in place in calls with device_options::symmetric.
  // This saves a copy of the input of calls that are not in place; with two_shot also of calls in place, if the result
  // is in such a buffer too. Such a call ends when all have read the buffer. Other calls treat it like any memory. All
  // ranks call it, each with a buffer of the same size, which must outlive this object.
  template <class T>
  void register_buffer(std::span<T> memory, std::source_location where = std::source_location::current()) {
    if (calls_) group().memory().share(memory.data(), memory.size_bytes(), where);
  }
  // Allocates such memory, which lives as long as this object. With TUTTI_NVLS=1 (not yet tested on hardware), where an NVLink switch
  // reaches all GPUs, it takes a multiple of 2 MiB, and the switch computes sums in_any_order of it. All ranks call it with the same
  // count.
  //
  //   auto gradient = ranks.allocate<float>(n), result = ranks.allocate<float>(n);
  //   tutti::all_reduce(ranks, gradient, result, tutti::sum{}, {.stream = stream, .symmetric = true});
  template <element T>
  std::span<T> allocate(std::size_t count, std::source_location where = std::source_location::current()) {
    if (!detail::is_possible_size<T>(count))
      detail::refuse_impossible_size(rank(), "the array of allocate", count, where);
    if (calls_) return {reinterpret_cast<T*>(group().memory().allocate(count * sizeof(T), where)), count};
    alone_.emplace_back(on_, count * sizeof(T));
    return {reinterpret_cast<T*>(alone_.back().data()), count};
  }

  // Ends the calls of all ranks with this error, unless they have a fault already.
  [[gnu::cold]] void give_up(error const& why) noexcept {
    if (calls_) group().board().raise({why.code(), rank(), rank(), why.happened()});
  }

  // The same because of an exception, if any calls are in flight.
  [[gnu::cold]] void give_up() const noexcept {
    if (calls_) group().give_up_calls();
  }

  // Describes how calls are carried out, and which ranks share a device.
  std::string explain() const {
    std::string out = detail::join({"rank ", rank(), " of ", size(), " on ", std::string(on_.text()), ": "});
    if (!calls_) return out + "one rank; calls copy at most";
    out += detail::join({"ranks read each other's memory in parts of ", group().arena_bytes(),
                         " bytes, and streams synchronise by words in host memory; "});
    std::size_t const most = limits().one_shot_among(size());
    if (most != device_limits::no_limit)
      out += detail::join({"all_reduce above ", most, " bytes uses two_shot, all else "});
    out += "uses one_shot";
    if (kernels_)
      out += detail::join({"; every rank has a device of its own, so kernels may wait for each other: up to ",
                           max_packet_bytes(),
                           " bytes, calls in which all ranks hear from all use packets, a larger all_reduce is one "
                           "kernel, and calls may name any algorithm"});
    if (kernels_ && group().memory().asks_switch())
      out += "; the switch computes sums in_any_order of memory from allocate, in its own order";
    else if (kernels_ && !group().memory().why_no_team().empty())
      out += detail::join({"; no switch computes sums: ", group().memory().why_no_team()});
    for (int q = 0; q < size(); ++q)
      if (q != rank())
        out += detail::join({"\nrank ", q, group().same_device(q) ? ": the same device" : ": another device"});
    return out;
  }

  // -- For windows: null for a single rank.
  detail::device_group<D, Transport>* shared_group() { return calls_ ? &calls_->group() : nullptr; }
  std::chrono::nanoseconds usual_timeout() const { return comm_.engine().environment.timeout; }

  // -- For the collectives.
  template <class Algorithm, collective C, class In, class Out, class Op>
  void combine(detail::device_call<D, In, Out> const& c, Op const& op) {
    if constexpr (!std::is_same_v<Algorithm, automatic>) {
      static_assert(std::is_same_v<In, Out>, "an algorithm sends elements of one type; input and output differ");
      static_assert(detail::is_bare_operation<Op>,
                    "an algorithm takes an operation; its prologue and epilogue are op.prepare and op.finish");
    }
    detail::expect_accessible<C>(on_, rank(), c);
    if (!calls_) {
      if (C == collective::exclusive_scan) return;
      return detail::combine_alone(on_, c, detail::in_stages<In>(detail::without_wire(op), 1));
    }
    carry_out<Algorithm, C>(c, op, detail::name_of<Op>(), [&](detail::request const& r) {
      if constexpr (C == collective::all_reduce)
        if (kernels_) return by_kernels().by_shots(c, r, op);
      if constexpr (detail::is_row_wise<Op>) rows_.combine(on_, rank(), *calls_, words(), c, r, op);
      else words().template combine<C>(c, r, detail::without_wire(op), detail::name_of<Op>());
    });
  }

  template <class Algorithm, collective C, class Word>
  void move(detail::device_call<D, Word, Word> const& c) {
    detail::expect_accessible<C>(on_, rank(), c);
    if (!calls_) return detail::move_alone(on_, c);
    carry_out<Algorithm, C>(c, bit_or{}, {}, [&](detail::request const& r) { words().template move<C>(c, r); });
  }

 private:
  using calls_type = detail::ipc_calls<D, Transport>;

  detail::ipc_words<D, Transport> words() { return {rank(), size(), *calls_}; }
  detail::ipc_kernel_calls<D, Transport> by_kernels() { return {rank(), size(), *calls_, *kernels_}; }
  typename calls_type::group_type& group() { return calls_->group(); }
  typename calls_type::group_type const& group() const { return calls_->group(); }

  // -- The choice of algorithm, the same on all ranks.
  // The table's limits are those of ranks with a device each.
  device_limits limits() const { return kernels_ ? comm_.engine().tuned.table().devices : device_limits{}; }
  std::size_t max_packet_bytes() const {
    return std::min(kernels_->channels().packet_bytes(), limits().packets_of_processes);
  }

  // Carries out a call by `by_words(request)`, or by a kernel that waits for others.
  template <class Algorithm, collective C, class In, class Out, class Op, class ByWords>
  void carry_out(detail::device_call<D, In, Out> const& c, Op const& op, std::string_view op_name,
                 ByWords const& by_words) {
    detail::request r = c.what;
    if constexpr (std::is_same_v<Algorithm, automatic>) {
      bool by_switch = false;
      if constexpr (C == collective::all_reduce)
        by_switch = kernels_ && !goes_by_packets(r) && by_kernels().goes_by_switch(c, op);
      r.algorithm = choose<Op>(r, by_switch, c.where);
      if constexpr (sends_packets<C, In, Out, Op>)
        if (c.how.protocol == protocol::packet ||
            (r.algorithm == algorithm_id::one_shot && c.how.protocol == protocol::automatic && goes_by_packets(r)))
          return by_packets<C>(c, r, op, op_name);
      expect_no_protocol(c);
      by_words(r);
    } else {
      using combined = std::conditional_t<reduces(C), Op, void>;
      detail::named_algorithms<Algorithm>::template visit<C, combined>(c.how.algorithm, c.where, [&](auto schedule) {
        using schedule_type = decltype(schedule);
        constexpr bool one = std::is_same_v<schedule_type, tutti::schedule<one_shot, C>>;
        r.algorithm = detail::id_of(schedule);
        if constexpr (one && sends_packets<C, In, Out, Op>)
          if (c.how.protocol == protocol::packet || (c.how.protocol == protocol::automatic && goes_by_packets(r)))
            return by_packets<C>(c, r, op, op_name);
        if (c.how.protocol != protocol::staged) {
          expect_no_protocol(c);
          if (one || has_words(r)) return by_words(r);
        }
        if (!kernels_) refuse_algorithm(r, c.where);
        by_kernels().template by_steps<C, schedule_type>(c, r, op, op_name);
      });
    }
  }

  static bool has_words(detail::request const& r) {
    return r.algorithm == algorithm_id::one_shot ||
           (r.what == collective::all_reduce && r.algorithm == algorithm_id::two_shot);
  }
  template <class Op>
  algorithm_id choose(detail::request const& r, bool by_switch, std::source_location where) const {
    constexpr bool in_parts = detail::works_in_parts<Op>, in_shards = detail::has_shards<Op>;
    if (r.algorithm == algorithm_id::two_shot && !in_parts) detail::refuse_arrays_in_parts(rank(), where);
    if (r.algorithm == algorithm_id::one_shot && in_shards) detail::refuse_shards_in_whole(rank(), where);
    if (has_words(r)) return r.algorithm;
    if (r.algorithm != algorithm_id::automatic) refuse_algorithm(r, where);
    if (in_shards) return algorithm_id::two_shot;
    detail::request wanted = r;
    wanted.algorithm = comm_.engine().environment.algorithms[r.what];
    if (has_words(wanted) && in_parts) return wanted.algorithm;
    bool const two = in_parts && r.what == collective::all_reduce && r.bytes() > limits().one_shot_among(size());
    return two || by_switch ? algorithm_id::two_shot : algorithm_id::one_shot;
  }
  [[noreturn, gnu::cold]] void refuse_algorithm(detail::request const& r, std::source_location where) const {
    std::string const others = r.what == collective::all_reduce ? "use one_shot or two_shot" : "use one_shot";
    detail::refuse(
        rank(), detail::join({name(r.algorithm), " does not serve ", name(r.what), " among processes on devices"}),
        kernels_ ? detail::join({others, ", or name the algorithm by its type, as in all_reduce<ring>"})
                 : detail::join({others, ", leave the choice to tutti, or give every rank a device of its own"}),
        where);
  }
  template <class Call>
  void expect_no_protocol(Call const& c) const {
    if (c.how.protocol != protocol::automatic)
      detail::refuse(rank(), detail::join({"protocol ", name(c.how.protocol), " does not serve this call on a device"}),
                     "leave the protocol automatic, or name an algorithm", c.where);
  }

  template <collective C, class In, class Out, class Op>
  static constexpr bool sends_packets =
      all_hear_all(C) && C != collective::barrier && std::is_same_v<In, Out> && detail::is_bare_operation<Op>;
  bool goes_by_packets(detail::request const& r) const {
    return kernels_ && !r.ragged && r.count > 0 && r.bytes() <= max_packet_bytes();
  }
  template <collective C, class T, class Op>
  void by_packets(detail::device_call<D, T, T> const& c, detail::request const& r, Op const& op,
                  std::string_view op_name) {
    if (!kernels_ || r.ragged || r.algorithm != algorithm_id::one_shot) expect_no_protocol(c);
    by_kernels().template by_packets<C>(c, r, op, op_name);
  }

  communicator<Transport>& comm_;
  D const& on_;
  std::optional<calls_type> calls_;                           // none for a single rank
  std::optional<detail::ipc_kernels<D, Transport>> kernels_;  // only if every rank has a device of its own
  std::vector<detail::device_array<D, std::byte>> alone_;
  detail::ipc_rows<D, Transport> rows_;
  detail::device_works works_;
};

}  // namespace tutti
