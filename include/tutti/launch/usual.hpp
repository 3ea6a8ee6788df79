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
#include "tutti/collective/all_or_none.hpp"
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

// Over processes of one machine, and over threads of one process.
#define TUTTI_USUAL_OVER(Transport)                                                                                 \
  TUTTI_USUAL class detail::peer_states<Transport>;                                                                 \
  TUTTI_USUAL class detail::faults<Transport>;                                                                      \
  TUTTI_USUAL class detail::faults_in_call<Transport>;                                                              \
  TUTTI_USUAL class detail::engine<Transport>;                                                                      \
  TUTTI_USUAL class communicator<Transport>;                                                                        \
  TUTTI_USUAL void detail::gather_bytes(communicator<Transport>&, std::span<std::byte const>, std::span<std::byte>, \
                                        std::source_location);                                                      \
  TUTTI_USUAL detail::first_failure detail::try_everywhere(communicator<Transport>&, std::source_location,          \
                                                           detail::function_ref<void()>, options const&);           \
  TUTTI_USUAL void detail::all_or_none(communicator<Transport>&, std::string_view, std::source_location,            \
                                       detail::function_ref<void()>, std::string_view, options const&);             \
  TUTTI_USUAL class detail::begun_call<Transport>;                                                                  \
  TUTTI_USUAL class detail::call_queue<Transport>;                                                                  \
  TUTTI_USUAL class detail::collective_queue<Transport>;                                                            \
  TUTTI_USUAL class detail::queued_call<Transport>;                                                                 \
  TUTTI_USUAL class detail::execution<Transport, dynamic_schedule, detail::byte_body>;                              \
  TUTTI_USUAL struct detail::call_in_bytes<collective::all_reduce, Transport, detail::array_memory<std::byte>>;     \
  TUTTI_USUAL struct detail::call_in_bytes<collective::reduce, Transport, detail::array_memory<std::byte>>;         \
  TUTTI_USUAL struct detail::call_in_bytes<collective::broadcast, Transport, detail::array_memory<std::byte>>;      \
  TUTTI_USUAL struct detail::call_in_bytes<collective::scan, Transport, detail::array_memory<std::byte>>;           \
  TUTTI_USUAL struct detail::call_in_bytes<collective::exclusive_scan, Transport, detail::array_memory<std::byte>>; \
  TUTTI_USUAL struct detail::call_in_bytes<collective::reduce_scatter, Transport, detail::block_memory<std::byte>>; \
  TUTTI_USUAL struct detail::call_in_bytes<collective::all_gather, Transport, detail::block_memory<std::byte>>;     \
  TUTTI_USUAL struct detail::call_in_bytes<collective::gather, Transport, detail::block_memory<std::byte>>;         \
  TUTTI_USUAL struct detail::call_in_bytes<collective::scatter, Transport, detail::block_memory<std::byte>>;        \
  TUTTI_USUAL struct detail::call_in_bytes<collective::all_to_all, Transport, detail::block_memory<std::byte>>;     \
  TUTTI_USUAL struct detail::call_in_bytes<collective::barrier, Transport, detail::token_memory>
TUTTI_USUAL_OVER(shm);
TUTTI_USUAL_OVER(loopback);
#undef TUTTI_USUAL_OVER

}  // namespace tutti

#endif
