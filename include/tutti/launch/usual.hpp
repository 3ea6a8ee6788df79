// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instantiations of the templates that most programs use, for the usual types. tutti::compiled contains them, so
// programs that link it do not compile them. This is the only list.
#pragma once

#include "tutti/core/config.hpp"

#if defined(TUTTI_COMPILED)

#include "tutti/algorithm/registry.hpp"
#include "tutti/call/communicator.hpp"
#include "tutti/call/perform.hpp"
#include "tutti/call/survive.hpp"
#include "tutti/collective/barrier.hpp"
#include "tutti/collective/split.hpp"
#include "tutti/fault/recorder.hpp"
#include "tutti/started/collective_queue.hpp"
#include "tutti/transport/shared_memory/shm.hpp"
#include "tutti/transport/threads/loopback.hpp"

namespace tutti {
namespace detail {

#if defined(_GLIBCXX_DEBUG) && defined(__GLIBCXX__)
// Containers with checks have another layout. Where the library was compiled without them, the linker names this.
extern char volatile const tutti_compiled_must_be_built_with_GLIBCXX_DEBUG;
[[gnu::constructor]] static void expect_same_containers() {  // whose section the linker keeps
  static_cast<void>(tutti_compiled_must_be_built_with_GLIBCXX_DEBUG);
}
#endif

// The notice board of both transports.
TUTTI_USUAL void observer::begin(std::uint64_t, board const&, int);
TUTTI_USUAL void observer::end(std::uint64_t, board const&, int);
TUTTI_USUAL void recorder::note_error(std::string const&, std::uint64_t, board const&);
TUTTI_USUAL void recorder::write_where_asked(std::string const&, std::uint64_t, board const&);
TUTTI_USUAL void recorder::write(std::string const&, std::string const&, std::uint64_t, board const&) const;

// Loops over elements.
TUTTI_USUAL struct combining_bytes<float, sum>;
TUTTI_USUAL struct combining_bytes<float, max>;
TUTTI_USUAL struct combining_bytes<double, sum>;
TUTTI_USUAL struct combining_bytes<double, max>;
TUTTI_USUAL struct combining_bytes<int, sum>;
TUTTI_USUAL struct combining_bytes<int, max>;
TUTTI_USUAL struct combining_bytes<long, sum>;
TUTTI_USUAL struct combining_bytes<long, max>;

// The schedules of each collective.
TUTTI_USUAL dynamic_schedule find_schedule_of<collective::all_reduce>(algorithm_id, collective);
TUTTI_USUAL dynamic_schedule find_schedule_of<collective::reduce>(algorithm_id, collective);
TUTTI_USUAL dynamic_schedule find_schedule_of<collective::broadcast>(algorithm_id, collective);
TUTTI_USUAL dynamic_schedule find_schedule_of<collective::reduce_scatter>(algorithm_id, collective);
TUTTI_USUAL dynamic_schedule find_schedule_of<collective::all_gather>(algorithm_id, collective);
TUTTI_USUAL dynamic_schedule find_schedule_of<collective::gather>(algorithm_id, collective);
TUTTI_USUAL dynamic_schedule find_schedule_of<collective::scatter>(algorithm_id, collective);
TUTTI_USUAL dynamic_schedule find_schedule_of<collective::all_to_all>(algorithm_id, collective);
TUTTI_USUAL dynamic_schedule find_schedule_of<collective::barrier>(algorithm_id, collective);
TUTTI_USUAL dynamic_schedule find_schedule_of<collective::scan>(algorithm_id, collective);
TUTTI_USUAL dynamic_schedule find_schedule_of<collective::exclusive_scan>(algorithm_id, collective);

}  // namespace detail

// -- Processes of one machine.

TUTTI_USUAL class detail::peer_states<shm>;
TUTTI_USUAL class detail::faults<shm>;
TUTTI_USUAL class detail::faults_in_call<shm>;
TUTTI_USUAL class detail::engine<shm>;
TUTTI_USUAL class communicator<shm>;
TUTTI_USUAL class detail::begun_call<shm>;
TUTTI_USUAL class detail::call_queue<shm>;
TUTTI_USUAL class detail::collective_queue<shm>;
TUTTI_USUAL class detail::queued_call<shm>;
TUTTI_USUAL class detail::execution<shm, dynamic_schedule, detail::byte_body>;
TUTTI_USUAL struct detail::call_in_bytes<collective::all_reduce, shm, detail::array_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::reduce, shm, detail::array_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::broadcast, shm, detail::array_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::scan, shm, detail::array_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::exclusive_scan, shm, detail::array_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::reduce_scatter, shm, detail::block_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::all_gather, shm, detail::block_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::gather, shm, detail::block_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::scatter, shm, detail::block_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::all_to_all, shm, detail::block_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::barrier, shm, detail::token_memory>;

// -- Threads of one process.

TUTTI_USUAL class detail::peer_states<loopback>;
TUTTI_USUAL class detail::faults<loopback>;
TUTTI_USUAL class detail::faults_in_call<loopback>;
TUTTI_USUAL class detail::engine<loopback>;
TUTTI_USUAL class communicator<loopback>;
TUTTI_USUAL class detail::begun_call<loopback>;
TUTTI_USUAL class detail::call_queue<loopback>;
TUTTI_USUAL class detail::collective_queue<loopback>;
TUTTI_USUAL class detail::queued_call<loopback>;
TUTTI_USUAL class detail::execution<loopback, dynamic_schedule, detail::byte_body>;
TUTTI_USUAL struct detail::call_in_bytes<collective::all_reduce, loopback, detail::array_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::reduce, loopback, detail::array_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::broadcast, loopback, detail::array_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::scan, loopback, detail::array_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::exclusive_scan, loopback, detail::array_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::reduce_scatter, loopback, detail::block_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::all_gather, loopback, detail::block_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::gather, loopback, detail::block_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::scatter, loopback, detail::block_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::all_to_all, loopback, detail::block_memory<std::byte>>;
TUTTI_USUAL struct detail::call_in_bytes<collective::barrier, loopback, detail::token_memory>;

}  // namespace tutti

#endif
