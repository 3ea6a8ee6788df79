// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives among processes by kernels that wait for each other, as words.hpp has those by streams that do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "tutti/core/error.hpp"
#include "tutti/core/is_a.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/front/rows.hpp"
#include "tutti/device/ipc/calls.hpp"
#include "tutti/device/ipc/kernels.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/device/kernel/switched.hpp"

namespace tutti::detail {

template <class D, transport Transport>
class ipc_kernel_calls {
 public:
  ipc_kernel_calls(int rank, int size, ipc_calls<D, Transport>& calls, ipc_kernels<D, Transport>& kernels)
      : rank_{rank}, size_{size}, calls_{calls}, kernels_{kernels} {}

  template <collective C, class T, class Op>
  void by_packets(device_call<D, T, T> const& c, request r, Op const& op, std::string_view op_name) {
    std::size_t const n = elements_of<T>(r);
    kernels_.template expect_packets_of<C, T, Op>(n, c.where);
    r.how = protocol::packet;
    call current = calls_.begin(c, r, op_name, waiting::kernels, [](int) { return true; });
    calls_.or_fault_of_all(c.where, [&] {
      kernels_.template launch_packets<C>(c.in, c.out, n, op, current.number, c.how.stream);
      calls_.end(current, c.how.stream);
    });
  }

  template <class In, class Out, class Op>
  void by_shots(device_call<D, In, Out> c, request const& r, Op const& op) {
    using wire_type = typename wire_of<Op>::type;
    int const shots = r.algorithm == algorithm_id::two_shot ? 2 : 1;
    // Registered memory holds elements as they are, and no sums of rows.
    if (is_a<Op, on_wire> || (is_row_wise<Op> && shots == 2)) c.how.symmetric = false;
    auto const rows = rows_in(op);
    auto const how = in_stages<In>(without_rows(without_wire(op)), size_);
    using combined = std::remove_const_t<decltype(how.op)>;
    auto const plan = kernels_.template plan_of_shots<In, Out, wire_type>(shots, c.given.at(0, 0).count, rows, c.where);
    bool const by_switch =
        shots == 2 && plan.cut.part_size * sizeof(In) % sizeof(switched_pack) == 0 && goes_by_switch(c, op);
    call current = calls_.begin(c, r, name_of<Op>(), waiting::kernels, [](int) { return true; });
    calls_.or_fault_of_all(c.where, [&] {
      kernels_.template launch_shots<wire_type>(plan, to_device_form<combined>(c.in), to_device_form<combined>(c.out),
                                                current.in, current.out, by_switch, how, rows, current.number,
                                                c.how.stream);
      calls_.end(current, c.how.stream);
    });
  }
  // Whether a switch can combine this all_reduce, as two_shot. Then 1 + 1 / p messages pass every link in either direction, otherwise
  // 2 (p - 1) / p. So two ranks do without, unless they name the algorithm.
  template <class In, class Out, class Op>
  bool goes_by_switch([[maybe_unused]] device_call<D, In, Out> const& c, Op const&) const {
    if constexpr (sums_by_switch<In, Out, Op>) {
      if (!c.how.symmetric || c.given.end() == 0) return false;
      if (size_ == 2 && c.what.algorithm == algorithm_id::automatic) return false;
      auto const is_reached = [&](void const* memory) {
        std::byte const* const at =
            calls_.group().memory().find_registered(memory, c.given.end() * sizeof(In)).everywhere();
        return at != nullptr && reinterpret_cast<std::uintptr_t>(at) % sizeof(switched_pack) == 0;
      };
      return is_reached(c.in) && is_reached(c.out) && kernels_.template asks_switch<In>();
    } else {
      return false;
    }
  }

  template <collective C, class Schedule, class T, class Op>
  void by_steps(device_call<D, T, T> const& c, request r, Op const& op, std::string_view op_name) {
    auto const plan = kernels_.template plan_of<C, Schedule, T, Op>(r.root, elements_of<T>(r), c.where);
    kernels_.template expect_scratch<C>(plan, c.how.stream, c.where);
    r.how = protocol::staged;
    call current =
        calls_.begin(c, r, op_name, waiting::kernels, [&](int q) { return all_hear_all(C) || plan.hears(rank_, q); });
    calls_.or_fault_of_all(c.where, [&] {
      kernels_.template launch_steps<C>(plan, c.in, c.out, op, current.number, c.how.stream, c.where);
      calls_.end(current, c.how.stream);
    });
  }

 private:
  using call = typename ipc_calls<D, Transport>::call;

  // Of the message, or of a block.
  template <class T>
  static std::size_t elements_of(request const& r) {
    return r.count * (r.element_bytes / sizeof(T));
  }

  int rank_, size_;
  ipc_calls<D, Transport>& calls_;
  ipc_kernels<D, Transport>& kernels_;
};

}  // namespace tutti::detail
