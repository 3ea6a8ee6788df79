// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages by NCCL: their two ends find each other on the host, and then give them to their streams.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <tuple>
#include <vector>

#include "tutti/call/check_arguments.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/front/accessible.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/nccl/calls.hpp"
#include "tutti/device/staged/message_place.hpp"
#include "tutti/message/point_to_point.hpp"

namespace tutti::detail {

// One end of a message. Hosts match it by rank and tag, as an offer of data in memory of a device.
template <transport Transport>
class nccl_message {
 public:
  // `number`: of the messages to the same rank, in the order in which they are sent.
  nccl_message(communicator<Transport>& comm, transfer const& what, std::uint64_t number, options const& how,
               std::source_location where)
      : what_{what}, number_{number}, met_{what.ended} {
    if (met_) return;
    begun_transfer const begun = start_transfer(
        comm,
        [&] {
          transfer head = what;
          head.from = head.to = nullptr;
          if (sends()) head.place = message_place::by_nccl(number).word();
          else head.bytes = 0, head.device_bytes = what.bytes;
          return head;
        },
        nullptr, how, where);
    call_ = begun.call;
    host_ = receive_work(begun, what.element_bytes);
  }

  // Whether the other end has come. Throws the errors of messages.
  bool meet(communicator<Transport>& comm, std::source_location where) {
    if (met_) return true;
    if (host_.done()) {
      got_ = host_.get();
      return met_ = true;
    }
    if (sends() || taken_) return false;
    auto const offered = with_exchange(comm, where, [&](auto& messages) { return messages.find_fetchable(*call_); });
    if (!offered) return false;
    message_place const place(offered->place);
    if (!place.is_by_nccl()) raise_other_way(comm, offered->source, where);
    number_ = place.nccl_number();
    taken_ = true;
    with_exchange(comm, where, [&](auto& messages) { messages.end_fetched(*call_); });
    return false;  // not met yet: the sender learns of this rank when the host's receive ends
  }

  bool sends() const { return what_.what == transfer::send; }
  int peer() const { return sends() ? what_.peer : got_.source; }
  std::uint64_t number() const { return number_; }
  // Empty messages are left to the host.
  std::size_t bytes() const { return what_.ended ? 0 : sends() ? what_.bytes : got_.count * what_.element_bytes; }
  received const& got() const { return got_; }

  nccl::result give(nccl::functions const& api, nccl::communicator* comm, void* stream) const {
    if (sends()) return api.send(what_.from, bytes(), nccl::data_type::uint8, peer(), comm, stream);
    return api.recv(what_.to, bytes(), nccl::data_type::uint8, peer(), comm, stream);
  }

 private:
  [[noreturn, gnu::cold]] static void raise_other_way(communicator<Transport>& comm, int source,
                                                      std::source_location where) {
    throw error({.code = error_code::mismatch,
                 .rank = comm.rank(),
                 .peer = source,
                 .what = join({"rank ", source, " sent a message that rank ", comm.rank(),
                               " receives by NCCL from memory that it shares"}),
                 .way_out = "pass {.algorithm = tutti::algorithm_id::native} at both ends, or at neither",
                 .where = where});
  }

  transfer what_;
  std::uint64_t number_;
  bool met_, taken_ = false;
  receive_work host_;
  std::shared_ptr<started_transfer> call_;
  received got_{no_rank, any_tag, 0};
};

// The messages of a call are a group of NCCL, which occupies its stream until all its ends are on theirs. If two ranks gave two groups
// in opposite orders, both streams would wait for ever. That cannot happen: a group is given only after all its ends have made their
// calls. So if B follows A on some stream, its rank called B after A had been given, hence after all ends of A had been called. B is
// given nowhere before that rank has called it, so wherever it is given, A has been called already.
//
// NCCL matches the messages from one rank to another in order. Those of a group are given to it in the order of their numbers.
template <lending_device D, transport Transport>
class nccl_messages {
 public:
  nccl_messages(communicator<Transport>& comm, D const& on, nccl_calls<D, Transport>& calls)
      : comm_{comm}, on_{on}, calls_{calls}, sent_(static_cast<std::size_t>(comm.size())), received_(sent_) {}

  // Returns the results of the receives, in their order, when all messages are on the stream.
  std::vector<received> run(char const* name, std::span<transfer const> all, device_options<D> const& how,
                            std::source_location where) {
    options const for_host{.algorithm = {}, .protocol = how.protocol, .timeout = how.timeout};
    check_options(comm_, name, for_host, where);
    for (transfer const& t : all) expect_accessible(name, t, where);
    calls_.expect_no_fault(where);
    auto const timeout = comm_.engine().timeout_for(how.timeout);
    std::vector<nccl_message<Transport>> group;
    group.reserve(all.size());
    try {
      for (transfer const& t : all) group.emplace_back(comm_, t, next_number(t), for_host, where);
      meet(name, group, timeout, where);
    } catch (...) {  // peers would wait for what this rank does not send or receive any more
      give_up(where);
      throw;
    }
    std::vector<received> out;
    for (auto const& one : group)
      if (!one.sends()) out.push_back(one.got());
    std::erase_if(group, [](auto const& one) { return one.bytes() == 0; });
    std::ranges::sort(group, {}, [](auto const& one) { return std::tuple(one.peer(), one.sends(), one.number()); });
    for (auto const& one : group)
      if (!one.sends()) expect_next(one, where);
    if (!group.empty())
      calls_.give_to_stream(name, timeout, how.stream, where, [&](auto const& api, auto* comm, void* stream) {
        nccl::result made{};
        for (auto one = group.begin(); one != group.end() && !nccl::failed(made); ++one)
          made = one->give(api, comm, stream);
        return made;
      });
    return out;
  }

 private:
  // Messages of the host have timeouts of their own, which name ranks.
  static constexpr std::chrono::seconds grace{1};

  std::uint64_t next_number(transfer const& t) {
    return t.what == transfer::send && !t.ended && t.bytes > 0 ? sent_[static_cast<std::size_t>(t.peer)]++ : 0;
  }
  void expect_accessible(char const* name, transfer const& t, std::source_location where) const {
    D const* const users[] = {&on_};
    bool const sends = t.what == transfer::send;
    detail::expect_accessible(name, std::span<D const* const>(users), sends ? side::input : side::output, comm_.rank(),
                              sends ? t.from : t.to, t.bytes, where);
  }
  [[gnu::cold]] void give_up(std::source_location where) noexcept {
    if (comm_.size() == 1) return;
    try {
      with_exchange(comm_, where, [](auto& messages) { messages.give_up_all(); });
    } catch (...) {  // the fault, which has ended them
    }
  }
  void meet(char const* name, std::span<nccl_message<Transport>> group, std::chrono::nanoseconds timeout,
            std::source_location where) {
    deadline until = deadline::after(timeout);
    until.postpone(grace);
    bool const met = wait_until_done(
        [&] {
          bool all = true;
          for (auto& one : group) all &= one.meet(comm_, where);
          return all ? progress::done : progress_list::help();
        },
        patience_sharing_cores, until, sleep_for(idler::rest));
    if (!met)
      throw error({.code = error_code::timeout,
                   .rank = comm_.rank(),
                   .what = join({name, " of rank ", comm_.rank(), " by NCCL met no other end in time"}),
                   .way_out = "call it at all ranks that send or receive these messages",
                   .where = where});
  }
  void expect_next(nccl_message<Transport> const& one, std::source_location where) {
    std::uint64_t& next = received_[static_cast<std::size_t>(one.peer())];
    if (one.number() == next++) return;
    calls_.raise({error_code::mismatch, comm_.rank(), one.peer(),
                  join({"rank ", comm_.rank(), " receives message ", one.number(), " by NCCL from rank ", one.peer(),
                        ", counted from 0, where NCCL delivers message ", next - 1,
                        ": receive them in the order in which they are sent, or in one batch"})},
                 where);
  }

  communicator<Transport>& comm_;
  D const& on_;
  nccl_calls<D, Transport>& calls_;
  std::vector<std::uint64_t> sent_, received_;  // by rank
};

}  // namespace tutti::detail
