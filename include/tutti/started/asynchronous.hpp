// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti::async(comm) and tutti::prepared(comm): collectives that only start, or only prepare, a call.
#pragma once

#include <source_location>
#include <utility>

#include "tutti/call/any_argument.hpp"
#include "tutti/started/held_call.hpp"
#include "tutti/started/progress.hpp"

namespace tutti {
namespace detail {

// Stands for a communicator in calls that are not made at once.
template <transport Transport>
class deferring {
 public:
  using transport_type = Transport;

  explicit deferring(communicator<Transport>& comm) : comm_(comm) {}

  int rank() const noexcept { return comm_.rank(); }
  int size() const noexcept { return comm_.size(); }

  // For the collectives.
  communicator<Transport>& blocking() const noexcept { return comm_; }

 private:
  communicator<Transport>& comm_;
};

}  // namespace detail

// Takes the place of the communicator in a call that is started and returns work.
template <transport Transport>
class asynchronous : public detail::deferring<Transport> {
 public:
  using detail::deferring<Transport>::deferring;

  // For the collectives.
  using returned = work;
  template <class Call, class Packing = detail::nothing_to_pack>
  work defer(Call&& call, Packing&& packing = {}) const {
    if (this->size() <= 1) {
      this->blocking().expect_usable(call.where);
      detail::run_alone(this->blocking().engine(), call, packing);
      return work();
    }
    std::source_location const where = call.where;
    return accept(detail::prepare(this->blocking(), std::forward<Call>(call), std::forward<Packing>(packing)), where);
  }
  template <class Operation>
  Operation accept(Operation call, std::source_location where) const {
    call.start(where);
    return call;
  }
};

// Every collective accepts it in place of the communicator. The call then checks its arguments and returns work while
// it is in progress. All ranks start the same calls in the same order, including blocking ones, which end after those
// started before them. The calls of one communicator run one after another; their works may be waited for in any order.
// A rank may start a call that another rank makes blocking only if both name the same scheduled algorithm; native and
// two_level wait internally, so only blocking calls can use them. The destructor of a communicator waits for its calls.
//
//   tutti::work sum = tutti::all_reduce(tutti::async(comm), gradient);
//   compute_something_else();
//   sum.wait();
template <transport Transport>
asynchronous<Transport> async(communicator<Transport>& comm) {
  return asynchronous<Transport>(comm);
}
template <class T = void>
detail::refused_call async(detail::only_argument<detail::started_form>);

// Whether a progress_thread drives the started calls on this communicator while the calling thread computes; false on that thread
// itself. It also begins large ones, so the program need not drive them before it waits for them, but may.
template <transport Transport>
bool has_progress_thread(communicator<Transport>& comm) {
  comm.expect_usable({});
  return detail::progress_list::has_thread() && comm.engine().any_thread;
}

// Takes the place of the communicator in a call that is only prepared and returns persistent.
template <transport Transport>
class preparing : public detail::deferring<Transport> {
 public:
  using detail::deferring<Transport>::deferring;

  // For the collectives.
  using returned = persistent;
  template <class Call, class Packing = detail::nothing_to_pack>
  persistent defer(Call&& call, Packing&& packing = {}) const {
    return detail::prepare(this->blocking(), std::forward<Call>(call), std::forward<Packing>(packing));
  }
  template <class Operation>
  Operation accept(Operation call, std::source_location) const {
    return call;
  }
};

// Every collective, and send and recv, accept it in place of the communicator. The call then checks its arguments and
// returns a call that can be started many times: see persistent. Everything said of async applies to its starts;
// nothing is sent before. See MPI-4.1, 3.9 and 6.13.
//
//   tutti::persistent sum = tutti::all_reduce(tutti::prepared(comm), gradient);
//   for (auto const& batch : batches) {
//     backward(batch, gradient);
//     sum.start();
//     load_next();
//     sum.wait();
//   }
template <transport Transport>
preparing<Transport> prepared(communicator<Transport>& comm) {
  return preparing<Transport>(comm);
}
template <class T = void>
detail::refused_call prepared(detail::only_argument<detail::started_form>);

namespace detail {

template <class Comm>
inline constexpr bool is_asynchronous = false;
template <class Transport>
inline constexpr bool is_asynchronous<asynchronous<Transport>> = true;

}  // namespace detail
}  // namespace tutti
