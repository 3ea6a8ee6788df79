// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of launch/grow.hpp.
#pragma once

#include <array>
#include <unistd.h>
#include <utility>

#include "tutti/collective/broadcast.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/error.hpp"
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
  std::array<std::uint64_t, 2> count_and_meeting{found.size(), detail::number_of_meeting()};
  broadcast(comm, count_and_meeting, 0, {}, where);
  auto const [count, meeting] = count_and_meeting;
  grown out;
  if (count == 0) {
    out.vote.flags = options.flags;
    return out;
  }
  static std::vector<detail::newcomer> const none;
  try {
    out.comm.emplace(detail::admit(comm, name,
                                   {.word = options.word,
                                    .meeting = meeting,
                                    .within = options.within.count(),
                                    .ranks = comm.size() + static_cast<std::int32_t>(count)},
                                   comm.is_main() ? detail::newcomers_of::list(found) : none));
  } catch (error const& e) {
    out.why = e.happened();
  }
  out.vote = comm.agree(out.comm ? options.flags : options.flags & ~1, {.exclude_after = options.exclude_after}, where);
  if ((out.vote.flags & 1) == 0 || !out.vote.gone.empty()) out.comm.reset();
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
