// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The templates that most programs use, with the types that most programs use. tutti::compiled has them, so programs that link it
// do not compile them. This is the only list.
#pragma once

#include "tutti/core/config.hpp"

#if defined(TUTTI_COMPILED)

#include "tutti/call/communicator.hpp"
#include "tutti/call/survive.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/collective/barrier.hpp"
#include "tutti/collective/split.hpp"
#include "tutti/fault/recorder.hpp"
#include "tutti/started/asynchronous.hpp"
#include "tutti/started/in_flight.hpp"
#include "tutti/transport/shared_memory/shm.hpp"
#include "tutti/transport/threads/loopback.hpp"

namespace tutti {

// The notice board of both transports.
TUTTI_USUAL void detail::observer::begin(std::uint64_t, board const&, int);
TUTTI_USUAL void detail::observer::end(std::uint64_t, board const&, int);
TUTTI_USUAL void recorder::note_error(std::string const&, std::uint64_t, board const&);
TUTTI_USUAL void recorder::write_where_asked(std::string const&, std::uint64_t, board const&);
TUTTI_USUAL void recorder::write(std::string const&, std::string const&, std::uint64_t, board const&) const;

// -- Processes of one machine.

TUTTI_USUAL class faults<shm>;
TUTTI_USUAL class engine<shm>;
TUTTI_USUAL class communicator<shm>;
TUTTI_USUAL plan detail::make_plan(engine<shm>&, request const&, std::source_location);
TUTTI_USUAL class detail::running_call<shm>;
TUTTI_USUAL class detail::call_queue<shm>;
TUTTI_USUAL class detail::in_flight<shm>;
TUTTI_USUAL class detail::queued_call<shm>;
TUTTI_USUAL class detail::beginning_call<shm>;
TUTTI_USUAL detail::running_call<shm> detail::open(communicator<shm>&, request const&, options const&, std::string_view,
                                                   std::string_view, std::source_location);
TUTTI_USUAL detail::beginning_call<shm> detail::open(detail::queued_call<shm>&, request, options const&,
                                                     std::string_view, std::string_view, std::source_location);

TUTTI_USUAL void detail::reduce_message<collective::all_reduce, automatic>(communicator<shm>&, float const*, float*,
                                                                           std::size_t, sum const&, int, options const&,
                                                                           std::source_location);
TUTTI_USUAL void detail::reduce_message<collective::all_reduce, automatic>(communicator<shm>&, double const*, double*,
                                                                           std::size_t, sum const&, int, options const&,
                                                                           std::source_location);
TUTTI_USUAL void detail::reduce_message<collective::all_reduce, automatic>(communicator<shm>&, int const*, int*,
                                                                           std::size_t, sum const&, int, options const&,
                                                                           std::source_location);
TUTTI_USUAL void detail::reduce_message<collective::all_reduce, automatic>(communicator<shm>&, long const*, long*,
                                                                           std::size_t, sum const&, int, options const&,
                                                                           std::source_location);
TUTTI_USUAL void detail::reduce_message<collective::all_reduce, automatic>(communicator<shm>&, float const*, float*,
                                                                           std::size_t, max const&, int, options const&,
                                                                           std::source_location);
TUTTI_USUAL void detail::reduce_message<collective::all_reduce, automatic>(communicator<shm>&, double const*, double*,
                                                                           std::size_t, max const&, int, options const&,
                                                                           std::source_location);
TUTTI_USUAL void detail::reduce_message<collective::all_reduce, automatic>(communicator<shm>&, int const*, int*,
                                                                           std::size_t, max const&, int, options const&,
                                                                           std::source_location);
TUTTI_USUAL void detail::execute_packets<collective::broadcast>(engine<shm>&, detail::running_call<shm>&,
                                                                request const&, moving, std::byte const*, std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::broadcast>(engine<shm>&, detail::running_call<shm>&,
                                                                            request const&, moving,
                                                                            surfaces<std::byte>&, std::size_t);
TUTTI_USUAL void detail::execute_packets<collective::all_gather>(engine<shm>&, detail::running_call<shm>&,
                                                                 request const&, moving, std::byte const*, std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::all_gather>(engine<shm>&, detail::running_call<shm>&,
                                                                             request const&, moving,
                                                                             surfaces<std::byte>&, std::size_t);
TUTTI_USUAL void detail::execute_packets<collective::gather>(engine<shm>&, detail::running_call<shm>&, request const&,
                                                             moving, std::byte const*, std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::gather>(engine<shm>&, detail::running_call<shm>&,
                                                                         request const&, moving, surfaces<std::byte>&,
                                                                         std::size_t);
TUTTI_USUAL void detail::execute_packets<collective::scatter>(engine<shm>&, detail::running_call<shm>&, request const&,
                                                              moving, std::byte const*, std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::scatter>(engine<shm>&, detail::running_call<shm>&,
                                                                          request const&, moving, surfaces<std::byte>&,
                                                                          std::size_t);
TUTTI_USUAL void detail::execute_packets<collective::all_to_all>(engine<shm>&, detail::running_call<shm>&,
                                                                 request const&, moving, std::byte const*, std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::all_to_all>(engine<shm>&, detail::running_call<shm>&,
                                                                             request const&, moving,
                                                                             surfaces<std::byte>&, std::size_t);
TUTTI_USUAL void barrier<automatic>(communicator<shm>&, options const&, std::source_location);

// -- Threads of one process.

TUTTI_USUAL class faults<loopback>;
TUTTI_USUAL class engine<loopback>;
TUTTI_USUAL class communicator<loopback>;
TUTTI_USUAL plan detail::make_plan(engine<loopback>&, request const&, std::source_location);
TUTTI_USUAL class detail::running_call<loopback>;
TUTTI_USUAL class detail::call_queue<loopback>;
TUTTI_USUAL class detail::in_flight<loopback>;
TUTTI_USUAL class detail::queued_call<loopback>;
TUTTI_USUAL class detail::beginning_call<loopback>;
TUTTI_USUAL detail::running_call<loopback> detail::open(communicator<loopback>&, request const&, options const&,
                                                        std::string_view, std::string_view, std::source_location);
TUTTI_USUAL detail::beginning_call<loopback> detail::open(detail::queued_call<loopback>&, request, options const&,
                                                          std::string_view, std::string_view, std::source_location);

TUTTI_USUAL void detail::reduce_message<collective::all_reduce, automatic>(communicator<loopback>&, float const*,
                                                                           float*, std::size_t, sum const&, int,
                                                                           options const&, std::source_location);
TUTTI_USUAL void detail::reduce_message<collective::all_reduce, automatic>(communicator<loopback>&, double const*,
                                                                           double*, std::size_t, sum const&, int,
                                                                           options const&, std::source_location);
TUTTI_USUAL void detail::reduce_message<collective::all_reduce, automatic>(communicator<loopback>&, int const*, int*,
                                                                           std::size_t, sum const&, int, options const&,
                                                                           std::source_location);
TUTTI_USUAL void detail::reduce_message<collective::all_reduce, automatic>(communicator<loopback>&, long const*, long*,
                                                                           std::size_t, sum const&, int, options const&,
                                                                           std::source_location);
TUTTI_USUAL void detail::reduce_message<collective::all_reduce, automatic>(communicator<loopback>&, float const*,
                                                                           float*, std::size_t, max const&, int,
                                                                           options const&, std::source_location);
TUTTI_USUAL void detail::reduce_message<collective::all_reduce, automatic>(communicator<loopback>&, double const*,
                                                                           double*, std::size_t, max const&, int,
                                                                           options const&, std::source_location);
TUTTI_USUAL void detail::reduce_message<collective::all_reduce, automatic>(communicator<loopback>&, int const*, int*,
                                                                           std::size_t, max const&, int, options const&,
                                                                           std::source_location);
TUTTI_USUAL void detail::execute_packets<collective::broadcast>(engine<loopback>&, detail::running_call<loopback>&,
                                                                request const&, moving, std::byte const*, std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::broadcast>(engine<loopback>&,
                                                                            detail::running_call<loopback>&,
                                                                            request const&, moving,
                                                                            surfaces<std::byte>&, std::size_t);
TUTTI_USUAL void detail::execute_packets<collective::all_gather>(engine<loopback>&, detail::running_call<loopback>&,
                                                                 request const&, moving, std::byte const*, std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::all_gather>(engine<loopback>&,
                                                                             detail::running_call<loopback>&,
                                                                             request const&, moving,
                                                                             surfaces<std::byte>&, std::size_t);
TUTTI_USUAL void detail::execute_packets<collective::gather>(engine<loopback>&, detail::running_call<loopback>&,
                                                             request const&, moving, std::byte const*, std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::gather>(engine<loopback>&,
                                                                         detail::running_call<loopback>&,
                                                                         request const&, moving, surfaces<std::byte>&,
                                                                         std::size_t);
TUTTI_USUAL void detail::execute_packets<collective::scatter>(engine<loopback>&, detail::running_call<loopback>&,
                                                              request const&, moving, std::byte const*, std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::scatter>(engine<loopback>&,
                                                                          detail::running_call<loopback>&,
                                                                          request const&, moving, surfaces<std::byte>&,
                                                                          std::size_t);
TUTTI_USUAL void detail::execute_packets<collective::all_to_all>(engine<loopback>&, detail::running_call<loopback>&,
                                                                 request const&, moving, std::byte const*, std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::all_to_all>(engine<loopback>&,
                                                                             detail::running_call<loopback>&,
                                                                             request const&, moving,
                                                                             surfaces<std::byte>&, std::size_t);
TUTTI_USUAL void barrier<automatic>(communicator<loopback>&, options const&, std::source_location);

}  // namespace tutti

#endif
