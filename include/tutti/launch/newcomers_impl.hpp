// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of launch/newcomers.hpp.
#pragma once

#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>
#include <utility>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/launch/meeting.hpp"
#include "tutti/launch/newcomers.hpp"
#include "tutti/transport/segment.hpp"
#include "tutti/transport/shared_memory/rendezvous.hpp"
#include "tutti/transport/system/local_socket.hpp"
#include "tutti/transport/system/process_watch.hpp"

namespace tutti::detail {

TUTTI_INLINE local_address address_of_newcomer(std::string const& job, int number) {
  return local_address(join({job, "-newcomer-", number}));
}
TUTTI_INLINE std::string name_of_meeting(std::string const& job, std::uint64_t number) {
  return join({job, "-meeting-", number});
}

TUTTI_INLINE std::optional<newcomer> find_newcomer(std::string const& job, int number) {
  descriptor connection = make_local_socket();
  ::fcntl(connection.get(), F_SETFL, O_NONBLOCK);
  local_address const address = address_of_newcomer(job, number);
  if (::connect(connection.get(), address.get(), address.bytes()) != 0 || !process_of(connection)) return {};
  return newcomer{number, std::move(connection)};
}

TUTTI_INLINE void send_to(newcomer const& one, invitation what) {
  what.layout = segment_layout;
  ::send(one.connection.get(), &what, sizeof what, MSG_NOSIGNAL | MSG_DONTWAIT);
}
TUTTI_INLINE void turn_away(newcomer const& one) { send_to(one, {}); }

inline constexpr char raise_within[] = "find out what delays them, or raise grow_options::within";

// Thrown in place of rank_gone: the rank may live, and continue in the old communicator.
TUTTI_INLINE error given_up(int rank, int peer, std::string_view how) {
  return error({.code = error_code::rank_left, .rank = rank, .peer = peer, .what = join({"rank ", peer, how})});
}

TUTTI_INLINE communicator<shm> admit(communicator<shm>& comm, std::string const& job, invitation next,
                                     std::vector<newcomer> const& newcomers) {
  countdown until(std::chrono::nanoseconds(next.within));
  auto& members = comm.engine();
  std::vector<process_watch> guests;
  for (newcomer const& one : newcomers) guests.emplace_back().begin(one.connection);
  for (std::size_t i = 0; i < newcomers.size(); ++i) {
    next.rank = comm.size() + static_cast<int>(i);
    send_to(newcomers[i], next);
  }
  // A member that has voted will not come any more: it has found out about a loss, or its own meeting has failed.
  std::uint64_t const vote = members.agreements + 1;
  auto const gone = [&](int rank) {
    auto& ranks = members.transport();
    if (auto const f = members.has_fault() ? members.poll_fault() : std::nullopt)
      throw error({.code = f->code, .rank = comm.rank(), .peer = f->peer, .what = f->text});
    auto const guest = static_cast<std::size_t>(rank - comm.size());
    if (rank < comm.size() && !ranks.lost(rank) && !ranks.left(rank) && ranks.votes().of(rank, vote))
      throw given_up(comm.rank(), rank, " has given up the meeting, or voted in another call (agree, shrink)");
    if (rank >= comm.size() && guest < guests.size() && guests[guest].ended())
      throw given_up(comm.rank(), rank, join({", newcomer ", newcomers[guest].number, ", has ended or given up"}));
    return rank < comm.size() && (ranks.lost(rank) || ranks.left(rank));
  };
  return meet_as_rank(name_of_meeting(job, next.meeting), comm.rank(), next.ranks, until, {},
                      {.gone = gone, .way_out = raise_within, .watch_all = true});
}

TUTTI_INLINE open_door::open_door(std::string job, int number) : job_(std::move(job)), listener_(make_local_socket()) {
  local_address const address = address_of_newcomer(job_, number);
  if (::bind(listener_.get(), address.get(), address.bytes()) != 0 || ::listen(listener_.get(), 8) != 0)
    throw_system(join({"cannot wait to join as member ", number}),
                 "check whether another process has the same number; let the sandbox allow abstract Unix sockets");
}

TUTTI_INLINE std::optional<invitation> open_door::take_invitation(std::vector<bool> const& readable) {
  std::optional<invitation> out;
  std::vector<descriptor> silent;
  for (std::size_t i = 0; i < finders_.size(); ++i) {
    invitation one;
    if (!readable[i]) {
      silent.push_back(std::move(finders_[i]));
    } else if (::recv(finders_[i].get(), &one, sizeof one, MSG_DONTWAIT) == sizeof one &&
               one.sender == invitation::sign) {
      out = one;
      host_ = std::move(finders_[i]);
    }  // else it has changed its mind, or is gone
  }
  finders_ = std::move(silent);
  return out;
}

TUTTI_INLINE invitation open_door::wait(countdown& until, std::string const& failure) {
  host_ = descriptor();
  while (true) {
    std::vector<pollfd> waiting{{listener_.get(), POLLIN, 0}};
    for (descriptor const& one : finders_) waiting.push_back({one.get(), POLLIN, 0});
    running_clock::rest rest;
    ::poll(waiting.data(), waiting.size(), 100);
    rest.end();
    if (until.passed() && !failure.empty())
      throw error(
          {.code = error_code::timeout,
           .what = join(
               {"the ranks of this job asked this process to join, but no meeting succeeded; the last one: ", failure}),
           .way_out = "remove that cause, or wait longer"});
    if (until.passed())
      throw error(
          {.code = error_code::timeout,
           .what = "the ranks of this job did not ask this process to join in time",
           .way_out = "make sure that they call grow(), or run an elastic_loop of fewer ranks than tutti-run --elastic "
                      "allows; or wait longer (elastic_options::asked_within)"});
    // Any process may find this one, but only rank 0 invites it. Of two that have, the later one counts: the first may be a rank 0
    // that has ended since.
    std::vector<bool> readable;
    for (std::size_t i = 0; i < finders_.size(); ++i) readable.push_back(waiting[1 + i].revents != 0);
    auto const invited = take_invitation(readable);
    if (waiting[0].revents != 0) {
      descriptor finder(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      // This process may open no more files, so it forgets the first of those that have found it and never asked.
      if (!finder && errno == EMFILE && !finders_.empty()) finders_.erase(finders_.begin());
      if (finder && process_of(finder)) finders_.push_back(std::move(finder));
    }
    if (!invited) continue;
    if (invited->layout != segment_layout)
      throw error({.code = error_code::mismatch,
                   .what = "the ranks of this job were built with another version of tutti",
                   .way_out = "build all programs of a job with the same tutti"});
    if (invited->ranks > 0) return *invited;
    throw error(
        {.code = error_code::bad_argument,
         .what = "the ranks of this job have turned this process away: what it was to join is over",
         .way_out =
             "end this process, or wait under another name; with elastic_loop, make a single loop in a program whose "
             "lost ranks are to be replaced: a process that starts again begins with the first"});
  }
}

TUTTI_INLINE communicator<shm> open_door::join_as(invitation const& invited) {
  countdown until(std::chrono::nanoseconds(invited.within));
  process_watch host;
  host.begin(host_);
  auto const gone = [&](int rank) {
    if (rank == 0 && host.ended()) throw given_up(invited.rank, 0, " has ended or given up the meeting");
    return false;
  };
  return meet_as_rank(name_of_meeting(job_, invited.meeting), invited.rank, invited.ranks, until, {},
                      {.gone = gone, .way_out = raise_within, .watch_all = true});
}

}  // namespace tutti::detail
