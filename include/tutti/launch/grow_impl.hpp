// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of launch/grow.hpp.
#pragma once

#include <array>
#include <unistd.h>
#include <utility>

#include "tutti/collective/broadcast.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/hash.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/launch/grow.hpp"

namespace tutti {
namespace detail {

struct newcomers_of {
  static std::vector<newcomer> const& list(newcomers const& some) { return some.all_; }
};

// No two meetings of a machine have the same number: rank 0 counts nanoseconds, and its process has no other meeting meanwhile.
TUTTI_INLINE std::uint64_t number_of_meeting() {
  auto const now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return (static_cast<std::uint64_t>(::getpid()) << 40) + (now & ((std::uint64_t{1} << 40) - 1));
}

[[noreturn, gnu::cold]] TUTTI_INLINE void refuse_time_to_meet(communicator<shm>& comm, std::source_location where) {
  error const refusal(
      {.code = error_code::bad_argument,
       .rank = comm.rank(),
       .what = "grow_options::within is not positive, so ranks and newcomers would not wait for each other",
       .way_out = "pass the time that they may take, such as 5 s",
       .where = where});
  comm.engine().note_refusal(refusal);
  throw refusal;
}

[[noreturn, gnu::cold]] TUTTI_INLINE void report_other_name(communicator<shm>& comm, std::string const& name,
                                                            std::source_location where) {
  comm.engine().raise({error_code::mismatch, comm.rank(), 0,
                       join({"rank ", comm.rank(), " passes the name \"", name, "\" to grow, but rank 0 another one"})},
                      where);
}

}  // namespace detail

TUTTI_INLINE std::vector<int> newcomers::numbers() const {
  std::vector<int> out;
  for (detail::newcomer const& one : all_) out.push_back(one.number);
  return out;
}
TUTTI_INLINE void newcomers::turn_away() const {
  for (detail::newcomer const& one : all_) detail::turn_away(one);
}

TUTTI_INLINE newcomers find_newcomers(std::string const& name, std::span<int const> numbers, std::size_t most) {
  newcomers out;
  for (int const number : numbers) {
    if (out.all_.size() >= most) break;
    if (auto one = detail::find_newcomer(name, number)) out.all_.push_back(std::move(*one));
  }
  return out;
}

TUTTI_INLINE grown grow(communicator<shm>& comm, std::string const& name, newcomers const& found,
                        grow_options const& options, std::source_location where) {
  if (options.within.count() <= 0) detail::refuse_time_to_meet(comm, where);
  // The number of newcomers below a hash of the name, and the number of the meeting.
  constexpr int half = 32;
  std::uint64_t const my_name = detail::hash_of(name) << half;
  std::array<std::uint64_t, 2> words{my_name | found.size(), detail::number_of_meeting()};
  broadcast(comm, words, 0, {}, where);
  if (words[0] >> half != my_name >> half) detail::report_other_name(comm, name, where);
  auto const count = static_cast<std::uint32_t>(words[0]);
  grown out;
  if (count == 0) {
    out.vote.flags = options.flags;
    return out;
  }
  static std::vector<detail::newcomer> const none;
  try {
    out.comm.emplace(detail::admit(comm, name,
                                   {.word = options.word,
                                    .meeting = words[1],
                                    .within = options.within.count(),
                                    .ranks = comm.size() + static_cast<std::int32_t>(count)},
                                   comm.is_main() ? detail::newcomers_of::list(found) : none));
  } catch (error const& e) {
    out.why = detail::join({e.happened(), e.way_out().empty() ? "" : "; ", e.way_out()});
  }
  out.vote = comm.agree(out.comm ? options.flags : options.flags & ~1, {.exclude_after = options.exclude_after}, where);
  if ((out.vote.flags & 1) == 0 || !out.intact()) out.comm.reset();
  return out;
}

TUTTI_INLINE join_request::join_request(std::string name, int number) : door_(std::move(name), number) {}

TUTTI_INLINE join_request::joined join_request::wait(std::chrono::nanoseconds most) {
  detail::countdown until(most);
  std::string failure;  // of the last meeting
  while (true) {
    detail::invitation const invited = door_.wait(until, failure);
    try {
      return {door_.join_as(invited), invited.word};
    } catch (error const& e) {  // it may be asked again
      failure = e.happened();
    }
  }
}

}  // namespace tutti
