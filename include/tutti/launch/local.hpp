// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// run_local and run_threads: ranks without a launcher, as processes or threads of this program.
#pragma once

#include <type_traits>

#include "tutti/call/communicator.hpp"
#include "tutti/core/function_ref.hpp"
#include "tutti/launch/usual.hpp"
#include "tutti/transport/shared_memory/shm.hpp"
#include "tutti/transport/threads/loopback.hpp"

namespace tutti {
namespace detail {

[[gnu::cold]] void expect_ranks(int ranks);

template <class Transport>
using rank_function = function_ref<void(communicator<Transport>&)>;

template <class Transport>
[[gnu::cold]] void run_processes(int ranks, rank_function<Transport> f);
template <class Transport>
[[gnu::cold]] void run_in_threads(int ranks, rank_function<Transport> f);

}  // namespace detail

// Forks `ranks` processes, calls f(comm) in each over shared memory, and returns when all have ended. Changes that a
// rank makes to its own memory are lost with it. Call it while this process has one thread.
// Throws error: rank_lost if a rank threw, was killed or exited with a code other than 0. The message contains the
// report of each such rank in the order of their failures, and peer() is the first of them. Ranks still running 10 s
// after the first failure are killed, unless they have shrunk their communicator to go on without those that ended.
//
//   tutti::run_local(4, [](auto& comm) { tutti::barrier(comm); });
template <class F>
void run_local(int ranks, F&& f) {
  static_assert(std::is_invocable_v<F&, communicator<shm>&>,
                "run_local passes a tutti::communicator<tutti::shm>& to the function; let it take auto& comm");
  auto const call = [&f](communicator<shm>& comm) { f(comm); };  // f may be a function rather than an object
  detail::run_processes<shm>(ranks, call);
}

// Calls f(comm) in `ranks` threads, over loopback, and returns when all have ended. Rethrows the first exception of a
// rank; other ranks that need that rank end with an error too (rank_left).
//
//   tutti::run_threads(4, [](auto& comm) { tutti::barrier(comm); });
template <class F>
void run_threads(int ranks, F&& f) {
  static_assert(std::is_invocable_v<F&, communicator<loopback>&>,
                "run_threads passes a tutti::communicator<tutti::loopback>& to the function; let it take auto& comm");
  auto const call = [&f](communicator<loopback>& comm) { f(comm); };
  detail::run_in_threads<loopback>(ranks, call);
}

}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/launch/local_impl.hpp"
#endif
