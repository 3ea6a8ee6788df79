// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of launch/init.hpp.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <pthread.h>
#include <string_view>
#include <utility>

#include "tutti/core/environment.hpp"
#include "tutti/core/text.hpp"
#include "tutti/fault/settings.hpp"
#include "tutti/launch/init.hpp"
#include "tutti/launch/meeting.hpp"
#include "tutti/launch/place.hpp"
#include "tutti/transport/system/descriptor.hpp"

namespace tutti {
namespace detail {

// One each per process, although plugins whose symbols are hidden have a copy of all else.
// Meetings that took place: the next call of init() meets under another name.
[[gnu::visibility("default")]] inline std::atomic<int> meetings{0};
// That of the first meeting. No other job can meet under it while the process of rank 0 lives.
[[gnu::visibility("default")]] inline descriptor job_name;

}  // namespace detail

template <>
TUTTI_INLINE communicator<shm> init<shm>(detail::program_table const& table, std::source_location where) {
  if (std::string_view const number = detail::environment_variable(detail::join_variable); !number.empty())
    throw error(
        {.code = error_code::bad_argument,
         .what = detail::join(
             {"this process replaces member ", number, ", and cannot call init() with ranks that run already"}),
         .way_out = "let elastic_loop(options) find the ranks, or do not start this program with tutti-run --elastic",
         .where = where});
  place const me = find_place();
  if (me.size == 1) return communicator<shm>(std::make_unique<shm>());
  if (me.local_size != me.size)
    throw error(
        {.code = error_code::bad_argument,
         .rank = me.rank,
         .what = detail::join({me.launcher, " started ", me.size, " ranks, ", me.local_size,
                               " of them on this machine; shared memory ends at the machine"}),
         .way_out =
             "start them all on one machine, or include tutti/mpi.hpp and call tutti::init<tutti::hierarchical>()"});
  if (me.size > max_ranks)
    throw error({.code = error_code::bad_argument,
                 .rank = me.rank,
                 .what = detail::join({me.size, " ranks on one machine"}),
                 .way_out = detail::join({"start at most ", max_ranks})});
  static int const kept_by_no_child =
      ::pthread_atfork(nullptr, nullptr, [] { detail::job_name = detail::descriptor(); });
  static_cast<void>(kept_by_no_child);
  detail::descriptor name;
  // A setting that is wrong is an error of the communicator, which reads it then: ranks that have met print it in full once.
  std::chrono::nanoseconds time = detail::settings::usual_timeout;
  bool const right = detail::settings::read_timeout(time);
  detail::countdown until(time);
  int const number = detail::meetings++;
  try {
    auto comm = detail::meet_as_rank(detail::join({me.job, "-", number}), me.rank, me.size, until, table,
                                     {.kept_name = &name}, right ? time : std::chrono::nanoseconds(0));
    if (number == 0) detail::job_name = std::move(name);
    return comm;
  } catch (error const& e) {
    --detail::meetings;
    throw e.in_call(where);
  } catch (...) {
    --detail::meetings;
    throw;
  }
}

}  // namespace tutti
