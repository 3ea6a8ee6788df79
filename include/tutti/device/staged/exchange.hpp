// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The messages of device memory of a communicator that are in flight.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <source_location>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/front/work.hpp"
#include "tutti/device/staged/call.hpp"
#include "tutti/device/staged/outbox.hpp"
#include "tutti/device/staged/transfer.hpp"

namespace tutti::detail {

// Transfers that started together. It ends when all have; after an error, when no message of the host is in flight any more, and
// the device does not read memory of other ranks, unless earlier work keeps its stream from that for long.
template <staging_device D, transport Transport>
class device_exchange final : public watched_work {
 public:
  using transfers = std::vector<std::shared_ptr<device_transfer<D, Transport>>>;

  device_exchange(pending_calls& queue, transfers all, transfer_terms<D, Transport> const& how,
                  std::chrono::nanoseconds timeout)
      : watched_work{queue}, all_{std::move(all)}, how_{how}, limit_{timeout} {}

  transfers const& all() const noexcept { return all_; }

  bool starts_calls() const noexcept override { return true; }
  bool look() noexcept override {
    if (ended()) return true;
    if (!how_.comm.engine().any_thread && std::this_thread::get_id() != thread_) return false;
    try {
      if (!thrown_now_) poll();
    } catch (...) {
      fail(std::current_exception());
    }
    auto const done = [this](auto const& one) { return thrown_now_ ? !one->in_flight() : one->ended(); };
    if (std::ranges::all_of(all_, done) && !(thrown_now_ && fetches())) end(thrown_now_);
    return ended();
  }
  void give_up() noexcept override {
    if (ended()) return;
    fail(std::make_exception_ptr(error({.code = error_code::rank_left,
                                        .rank = how_.comm.rank(),
                                        .what = "ranks were destroyed before their messages were sent and received",
                                        .way_out = "wait for the work first",
                                        .where = how_.where})));
    end(thrown_now_);
  }

 private:
  // Messages of the host have timeouts of their own, which name ranks.
  static constexpr std::chrono::seconds grace{1};

  // While its stream is captured, copies would become part of the graph, so the messages wait for the end of that.
  bool is_held_back() {
    bool const was = std::exchange(held_back_, how_.on.capturing(how_.stream));
    if (was && !held_back_) time_ = countdown(limit_ + grace);
    return held_back_;
  }
  void poll() {
    if (is_held_back()) {
      if (time_.passed()) throw_captured();
      return;
    }
    progress reached = progress::stuck;
    for (auto const& one : all_)
      if (one->poll(how_) == progress::moved) reached = progress::moved;
    if (reached == progress::moved) time_ = countdown(limit_ + grace);
    else if (time_.passed()) throw_timeout();
  }
  [[noreturn, gnu::cold]] void throw_timeout() const {
    double const seconds = std::chrono::duration<double>(limit_).count();
    throw error({.code = error_code::timeout,
                 .rank = how_.comm.rank(),
                 .what = join(
                     {"messages of device memory of rank ", how_.comm.rank(), " made no progress for ", seconds, " s"}),
                 .way_out = "raise the timeout, or check the earlier work of the stream",
                 .where = how_.where});
  }
  [[noreturn, gnu::cold]] void throw_captured() const {
    double const seconds = std::chrono::duration<double>(limit_).count();
    throw error({.code = error_code::timeout,
                 .rank = how_.comm.rank(),
                 .what = join({"messages of device memory of rank ", how_.comm.rank(), " were held back for ", seconds,
                               " s, because their stream is being captured into a graph"}),
                 .way_out = "end the capture before waiting for messages, or give them a stream of their own",
                 .where = how_.where});
  }
  [[gnu::cold]] bool fetches() noexcept {
    try {
      return std::ranges::any_of(all_, [](auto const& one) { return one->fetching(); }) && !time_.passed();
    } catch (...) {  // nothing runs on the device any more
      return false;
    }
  }
  [[gnu::cold]] void end_messages_of_host() noexcept {
    if (how_.comm.size() == 1) return;
    try {
      with_exchange(how_.comm, how_.where, [](auto& messages) { messages.give_up_all(); });
    } catch (...) {  // the fault, which has ended them
    }
  }
  // Peers would wait for what this rank does not send or receive any more.
  void fail(std::exception_ptr why) noexcept {
    thrown_now_ = std::move(why);
    time_ = countdown(grace);
    for (auto const& one : all_) one->stop();
    end_messages_of_host();
  }

  transfers all_;
  transfer_terms<D, Transport> how_;
  std::chrono::nanoseconds limit_;
  countdown time_{limit_ + grace};
  bool held_back_ = false;
  std::exception_ptr thrown_now_;
  std::thread::id const thread_ = std::this_thread::get_id();
};

// Starts messages of device memory; the communicator and the device must outlive it.
template <staging_device D, transport Transport>
class device_messages {
 public:
  using transfers = typename device_exchange<D, Transport>::transfers;

  device_messages(communicator<Transport>& comm, D const& on, std::size_t slice)
      : comm_{comm},
        on_{on},
        slice_{slice},
        outbox_{std::make_shared<message_outbox>(comm.rank())},
        sent_{std::make_shared<message_slots<D>>(on, slice)},
        received_{std::make_shared<message_slots<D>>(on, slice)} {}
  // Releasing pinned memory also waits for the copies of messages that have failed, which read memory of other ranks.
  ~device_messages() { works_.close(comm_.engine().environment.timeout); }

  // Memory that other ranks can read.
  message_outbox& outbox() const noexcept { return *outbox_; }
  // Buffers for a message of this many bytes.
  std::shared_ptr<message_slots<D>> make_slots(std::size_t bytes) const {
    return std::make_shared<message_slots<D>>(on_, std::clamp<std::size_t>(bytes, 1, slice_));
  }
  // Throws error: bad_argument for elements that are too large.
  void expect_fit(transfer const& what, std::source_location where) const {
    if (what.element_bytes > slice_)
      refuse(comm_.rank(), join({"an element of ", what.element_bytes, " bytes does not fit a slice of ", slice_}),
             "pass larger slices to on, as in {.slices = {.slice = bytes}}", where);
  }
  // The same error.
  std::shared_ptr<device_transfer<D, Transport>> make(transfer const& what,
                                                      std::shared_ptr<message_slots<D>> const& slots,
                                                      std::source_location where) const {
    expect_fit(what, where);
    return std::make_shared<device_transfer<D, Transport>>(what, slice_ / what.element_bytes * what.element_bytes,
                                                           slots, outbox_);
  }

  // Carries out at most one send and one receive of the call `name`, at once, and returns the result of the receive.
  received run(char const* name, std::span<transfer const> all, device_options<D> const& how,
               std::source_location where) {
    transfers made;
    for (transfer const& t : all) made.push_back(make(t, t.what == transfer::send ? sent_ : received_, where));
    start(name, made, how, where).wait();
    for (auto const& one : made)
      if (one->receives()) return one->got();
    return {no_rank, any_tag, 0};
  }
  work start(char const* name, transfers const& all, device_options<D> const& how, std::source_location where) {
    if (on_.capturing(how.stream))
      refuse(comm_.rank(), "a message was sent or received on a stream that is being captured into a graph",
             "call it outside of graphs, because the host sends messages", where);
    // The host refuses an algorithm or a protocol, which a message does not have.
    options const for_host{.algorithm = how.algorithm, .protocol = how.protocol, .timeout = how.timeout};
    check_options(comm_, name, for_host, where);
    auto const timeout = comm_.engine().timeout_for(how.timeout);
    put_in_order(all);
    auto const call = std::make_shared<device_exchange<D, Transport>>(
        works_, all, transfer_terms<D, Transport>{comm_, on_, how.stream, for_host, where}, timeout);
    work out = works_.add(call);
    works_.advance();
    return out;
  }

 private:
  void put_in_order(transfers const& all) {
    std::erase_if(open_, [](auto const& one) { return one.expired(); });
    for (auto const& one : all) {
      for (auto const& earlier : open_)
        if (auto const other = earlier.lock(); other && other->may_take(*one)) one->start_after(other);
      open_.push_back(one);
    }
  }

  communicator<Transport>& comm_;
  D const& on_;
  std::size_t slice_;
  std::shared_ptr<message_outbox> outbox_;
  std::shared_ptr<message_slots<D>> sent_, received_;  // of blocking messages
  std::vector<std::weak_ptr<device_transfer<D, Transport>>> open_;
  device_works works_;
};

}  // namespace tutti::detail
