// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// device_batch: messages of device memory that start together.
#pragma once

#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/call/check_arguments.hpp"
#include "tutti/device/front/arguments.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/staged/messages.hpp"
#include "tutti/message/point_to_point.hpp"
#include "tutti/started/work.hpp"

namespace tutti {

// The work of a device_batch.
template <class Transfers>
class device_batch_work : public work {
 public:
  device_batch_work() = default;
  device_batch_work(work all, Transfers transfers) : work(std::move(all)), transfers_(std::move(transfers)) {}
  device_batch_work(work all, std::vector<received> got) : work(std::move(all)), got_(std::move(got)) {}

  // The results of the receives, in their order. Waits as wait() does.
  std::vector<received> get() {
    wait();
    std::vector<received> out = got_;
    for (auto const& one : transfers_)
      if (one->receives()) out.push_back(one->got());
    return out;
  }

 private:
  template <detail::device_ranks_with_messages R>
  friend class device_batch;

  Transfers transfers_;
  std::vector<received> got_;  // of NCCL's messages
};

// Collects sends and receives of device memory, which run() or start() then start together, any number of times, as tutti::batch
// does for host memory. All progress at once, so their order in the batch cannot make ranks wait for each other; messages between
// the same ranks with the same tag keep it. A receive names its rank and its tag. Each message has buffers of its own, of its
// length or of two slices. A batch must be destroyed before its ranks. Errors are those of send and recv.
//
//   tutti::device_batch halos(ranks);
//   for (auto& side : sides) halos.send(side.edge, side.rank).recv(side.halo, side.rank);
//   halos.run({.stream = stream});
//
//   tutti::work done = halos.start({.stream = stream});
template <detail::device_ranks_with_messages R>
class device_batch {
  using messages_type = std::remove_reference_t<decltype(std::declval<R&>().messages())>;
  using transfers = typename messages_type::transfers;

 public:
  explicit device_batch(R& ranks) : ranks_{ranks} {}

  // The arguments are those of tutti::send and tutti::recv of device memory.
  template <detail::device_buffer In>
  device_batch& send(In const& in, int to, int tag = 0, std::source_location where = std::source_location::current()) {
    detail::check_message(ranks_, "device_batch::send", detail::inputs_of(in), to, tag, false, where);
    return add(detail::send_of(detail::inputs_of(in), to, tag), where);
  }
  template <detail::device_buffer Out>
  device_batch& recv(Out&& out, int from, int tag = 0, std::source_location where = std::source_location::current()) {
    detail::check_message(ranks_, "device_batch::recv", detail::elements_of(out), from, tag, true, where);
    if (from == any_source || (from != no_rank && tag == any_tag))
      detail::refuse(ranks_.rank(), "a receive in a device_batch names any_source or any_tag",
                     "name the rank and the tag, or call recv outside of the batch", where);
    return add(detail::receive_of(detail::elements_of(out), from, tag), where);
  }

  // Returns the results of the receives, in their order, when all messages have been sent and received.
  std::vector<received> run(detail::device_options_of<R> const& how = {},
                            std::source_location where = std::source_location::current()) {
    if (how.algorithm == algorithm_id::native) return run_native(how, where);
    return start(how, where).get();
  }

  // Returns while messages are in progress, which they make while threads of the process wait in tutti. Arrays must not be used
  // before the work has ended. It must have ended, and test() or wait() must have reported it, before the batch is started again.
  // With `native`, it also waits for the other ends; the work of a batch that is captured into a graph has ended at once.
  device_batch_work<transfers> start(detail::device_options_of<R> const& how = {},
                                     std::source_location where = std::source_location::current()) {
    if (how.algorithm == algorithm_id::native) {
      std::vector<received> got = run_native(how, where);
      bool const captured = ranks_.on().capturing(ranks_.with_stream(how).stream);  // and runs later, if at all
      return last_ = {captured ? work() : ranks_.work(how.stream, where), std::move(got)};
    }
    last_.expect_seen(ranks_.rank(), where);
    transfers made;
    for (auto const& [what, slots] : messages_) made.push_back(ranks_.messages().make(what, slots, where));
    work all = ranks_.messages().start("device_batch", made, ranks_.with_stream(how), where);
    return last_ = {std::move(all), std::move(made)};
  }

 private:
  std::vector<received> run_native(detail::device_options_of<R> const& how, std::source_location where) {
    last_.expect_seen(ranks_.rank(), where);
    std::vector<detail::transfer> all;
    for (auto const& one : messages_) all.push_back(one.first);
    return ranks_.run_native("device_batch", all, how, where);
  }
  device_batch& add(detail::transfer const& what, std::source_location where) {
    ranks_.messages().expect_fit(what, where);
    messages_.emplace_back(what, what.ended ? nullptr : ranks_.messages().make_slots(what.bytes));
    return *this;
  }

  R& ranks_;
  std::vector<std::pair<detail::transfer, decltype(std::declval<messages_type&>().make_slots(0))>> messages_;
  device_batch_work<transfers> last_;
};

}  // namespace tutti
