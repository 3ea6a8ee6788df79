// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on device memory among the ranks of any communicator, by whatever connects their devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>

#include "tutti/call/check_arguments.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/type_name.hpp"
#include "tutti/device/front/collectives.hpp"
#include "tutti/device/front/ragged.hpp"
#include "tutti/device/front/work.hpp"
#include "tutti/device/ipc/cuda_ipc.hpp"
#include "tutti/device/staged/cuda_staged.hpp"
#include "tutti/device/staged/messages.hpp"

namespace tutti {

// How data travel between the devices of ranks: `ipc`, by reading each other's memory (cuda_ipc), or `staged`, by way of
// the host or of an MPI that accepts device memory (cuda_staged).
enum class device_path : std::uint8_t { automatic, ipc, staged };

// What `on` may be told. All ranks pass the same, except for the stream.
//
// stream   of calls and works that name none
// path     automatic: `ipc` if all ranks can, and else `staged`. Naming `ipc` makes its refusal an error
// arena    bytes of device memory that peers read, with `ipc`
// slices   how messages are cut, with `staged`
template <detail::device D>
struct on_options {
  detail::passed_stream<D> stream{};
  device_path path = device_path::automatic;
  std::size_t arena = std::size_t{16} << 20;
  staging slices{};
};

// Ranks that each pass a buffer of their device; made by `on`. The calls are those of device/front/collectives.hpp. Results
// have the same bits on every path.
template <class D, transport Transport>
  requires detail::sharing_device<D> && detail::cooperative_device<D> && detail::staging_device<D>
class cuda_ranks {
 public:
  using device_type = D;

  // Communicator and device must outlive it.
  cuda_ranks(communicator<Transport>& comm, D const& on, on_options<D> const& how, std::source_location where)
      : comm_{comm}, on_{on}, stream_{how.stream} {
    expect_one_path(how, where);
    detail::all_or_none(
        comm, where, [&] { messages_.emplace(comm, on, how.slices.slice); }, "allocate memory for messages");
    if (how.path != device_path::staged && can_try_ipc(how)) {
      try {
        ipc_.emplace(comm, on, how.arena, where);
        return;
      } catch (error const& e) {  // at all ranks
        if (how.path == device_path::ipc || e.code() != error_code::system) throw;
        why_staged_ = e.happened();
      }
    }
    staged_.emplace(comm, on, how.slices, where);
  }

  // Waits for the continuations of its works, at most for TUTTI_TIMEOUT, and not during an exception.
  ~cuda_ranks() { works_.close(comm_.engine().environment.timeout); }

  int rank() const noexcept { return comm_.rank(); }
  int size() const noexcept { return comm_.size(); }
  D const& on() const noexcept { return on_; }
  device_path path() const noexcept { return ipc_ ? device_path::ipc : device_path::staged; }

  // Completes when everything that the stream was given so far has run, or at a fault, which it then throws.
  tutti::work work(detail::passed_stream<D> stream = {}, std::source_location where = std::source_location::current()) {
    if (ipc_) return ipc_->work(named(stream), where);
    return works_.add(std::make_shared<detail::device_work<D>>(works_, on_, nullptr, named(stream), where));
  }

  // Allocates memory of this rank's device, which lives as long as this object. All ranks call it with the same count. On
  // the path `ipc`, peers read it in place in calls with device_options::symmetric.
  //
  //   auto gradient = ranks.allocate<float>(n), result = ranks.allocate<float>(n);
  //   tutti::all_reduce(ranks, gradient, result, tutti::sum{}, {.symmetric = true});
  template <element T>
  std::span<T> allocate(std::size_t count, std::source_location where = std::source_location::current()) {
    if (ipc_) return ipc_->template allocate<T>(count, where);
    return {reinterpret_cast<T*>(allocated_.emplace_back(on_, count * sizeof(T)).data()), count};
  }

  // Describes how calls are carried out, and why.
  std::string explain() const {
    if (ipc_) return ipc_->explain();
    return detail::join(
        {"rank ", rank(), " of ", size(), " on ", std::string(on_.text()), ": ",
         staged_->hands_over() ? "the MPI gets device memory" : "data travel through pinned host memory", ", because ",
         why_staged_});
  }

  // -- For the messages and the collectives.
  detail::device_messages<D, Transport>& messages() { return *messages_; }
  device_options<D> with_stream(device_options<D> how) const {
    how.stream = named(how.stream);
    return how;
  }
  template <class Algorithm, collective C, class In, class Out, class Op>
  void combine(detail::device_call<D, In, Out> call, Op const& op) {
    call.how = with_stream(call.how);
    if (ipc_) return ipc_->template combine<Algorithm, C>(call, op);
    if constexpr (staged_type::template has_algorithm<Algorithm, C>) staged_->template combine<Algorithm, C>(call, op);
    else refuse_algorithm<Algorithm>(C, call.where);
  }
  template <class Algorithm, collective C, class Word>
  void move(detail::device_call<D, Word, Word> call) {
    call.how = with_stream(call.how);
    if (ipc_) return ipc_->template move<Algorithm, C>(call);
    if constexpr (staged_type::template has_algorithm<Algorithm, C>) staged_->template move<Algorithm, C>(call);
    else refuse_algorithm<Algorithm>(C, call.where);
  }

 private:
  using staged_type = cuda_staged<D, Transport>;

  detail::stream_of<D> named(detail::stream_of<D> stream) const {
    return stream == detail::stream_of<D>{} ? stream_ : stream;
  }

  void expect_one_path(on_options<D> const& how, std::source_location where) {
    auto const all = detail::exchange_cards(comm_, how.path, where);
    for (std::size_t q = 1; q < all.size(); ++q)
      if (all[q] != all[0])
        detail::refuse(rank(), detail::join({"ranks 0 and ", q, " name different paths to other devices"}),
                       "pass the same path at all ranks", where);
  }
  bool can_try_ipc(on_options<D> const& how) {
    if (size() <= detail::max_destinations || how.path == device_path::ipc) return true;
    why_staged_ = detail::join({size(), " ranks are too many to read each other's memory"});
    return false;
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
  std::optional<detail::device_messages<D, Transport>> messages_;
  std::string why_staged_ = "the program asked for it";
  std::optional<cuda_ipc<D, Transport>> ipc_;
  std::optional<staged_type> staged_;  // if there is no ipc_
  std::list<detail::device_array<D, std::byte>> allocated_;
  detail::device_works<D> works_;
};

// The ranks of a communicator, each with buffers in memory of its device. Finds out how their devices can communicate: if all
// ranks can read each other's memory, which takes one node and devices with that ability, they do; else data travel through the
// host, or to an MPI that accepts device memory. `explain()` tells which, and why. All ranks call it together, and make the
// same calls in the same order. Every collective of device/front/collectives.hpp can be called, with the same results on every
// path; and send, recv and send_recv (device/staged/messages.hpp), which go by way of the host.
//
// Throws error: bad_argument, at all ranks, if they name different paths; system, at all ranks, if one of them is out of
// memory, or cannot share memory although `ipc` was named; the errors of all_gather.
//
//   auto comm = tutti::init();
//   tutti::cuda_device gpu(comm.local_rank() % tutti::cuda_device_count());
//   auto ranks = tutti::on(comm, gpu, {.stream = stream});
//   tutti::all_reduce(ranks, gradient, tutti::mean{});
template <class D, transport Transport>
  requires detail::sharing_device<D> && detail::cooperative_device<D> && detail::staging_device<D>
[[nodiscard]] cuda_ranks<D, Transport> on(communicator<Transport>& comm, D const& device, on_options<D> const& how = {},
                                          std::source_location where = std::source_location::current()) {
  return {comm, device, how, where};
}

}  // namespace tutti
