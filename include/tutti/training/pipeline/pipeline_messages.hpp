// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The activations and gradients that a rank of a pipeline sends and receives.
#pragma once

#include <cstddef>
#include <map>
#include <source_location>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/message/point_to_point.hpp"
#include "tutti/training/failure.hpp"
#include "tutti/training/peer_array.hpp"
#include "tutti/training/schedule/order.hpp"

namespace tutti::detail {

// Buffers of activations and their gradients, which are used again from batch to batch: those that are not in use, by their size.
template <class T, class Transport>
class activation_pool {
 public:
  using buffer = peer_array<T, Transport>;

  explicit activation_pool(communicator<Transport> const& comm) : comm_(comm) {}

  buffer take(std::size_t elements) {
    if (elements == 0) return {};
    auto& idle = idle_[elements];
    if (idle.empty()) return buffer(comm_, elements);
    buffer out = std::move(idle.back());
    idle.pop_back();
    return out;
  }
  void give(buffer&& used) {
    if (std::size_t const elements = used.size(); elements > 0) idle_[elements].push_back(std::move(used));
  }

 private:
  communicator<Transport> const& comm_;
  std::map<std::size_t, std::vector<buffer>> idle_;
};

// What a pass needs is named by that pass, whose stage is counted among those of this rank.
template <class T, class Transport>
class pipeline_messages {
 public:
  using buffer = peer_array<T, Transport>;

  pipeline_messages(communicator<Transport>& comm, int local_stages, int microbatches)
      : comm_(comm), pool_(comm), arrivals_(local_stages, microbatches) {}

  activation_pool<T, Transport>& pool() noexcept { return pool_; }
  std::size_t bytes_sent() const noexcept { return bytes_sent_; }

  // Starts to receive what a pass needs.
  void receive(training::pipeline_action const& needs, std::size_t elements, int from, int tag,
               std::source_location where) {
    arrival& a = arrivals_[needs];
    a.data = pool_.take(elements);
    a.done = irecv(comm_, a.data.all(), from, tag, {}, where);
  }
  // This rank has computed it itself.
  void keep(training::pipeline_action const& needs, buffer&& data) { arrivals_[needs].data = std::move(data); }
  // Waits for it. Empty if the pass needs nothing.
  buffer take(training::pipeline_action const& needs) {
    arrival& a = arrivals_[needs];
    a.done.wait();
    return std::exchange(a.data, {});
  }

  void send(buffer&& data, int to, int tag, std::source_location where) {
    bytes_sent_ += data.bytes();
    departures_.push_back({std::move(data), {}});
    departures_.back().done = isend(comm_, departures_.back().data.all(), to, tag, {}, where);
  }

  // Drives all messages, and takes back the buffers of those that have left.
  void drive() {
    if (departures_.empty()) return;
    departures_.back().done.advance();
    for (std::size_t i = departures_.size(); i-- > 0;)
      if (departures_[i].done.done()) take_back(i);
  }
  void wait_for_sends() {
    while (!departures_.empty()) take_back(departures_.size() - 1);
  }
  // Waits until nothing is in flight, whether or not it succeeds.
  void abandon() noexcept {
    for (departure& d : departures_) wait_quietly(d.done);
    departures_.clear();
    arrivals_.for_each([](arrival& a) {
      wait_quietly(a.done);
      a = {};
    });
  }

 private:
  struct arrival {
    buffer data{};
    receive_work done{};
  };
  struct departure {
    buffer data;
    work done;
  };

  void take_back(std::size_t index) {
    departures_[index].done.wait();
    pool_.give(std::move(departures_[index].data));
    if (index + 1 < departures_.size()) departures_[index] = std::move(departures_.back());
    departures_.pop_back();
  }
  communicator<Transport>& comm_;
  activation_pool<T, Transport> pool_;
  by_action<arrival> arrivals_;
  std::vector<departure> departures_;
  std::size_t bytes_sent_ = 0;
};

}  // namespace tutti::detail
