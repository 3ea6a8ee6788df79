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
TUTTI_USUAL void detail::observer::begin(std::uint64_t, detail::board const&, int);
TUTTI_USUAL void detail::observer::end(std::uint64_t, detail::board const&, int);
TUTTI_USUAL void detail::recorder::note_error(std::string const&, std::uint64_t, detail::board const&);
TUTTI_USUAL void detail::recorder::write_where_asked(std::string const&, std::uint64_t, detail::board const&);
TUTTI_USUAL void detail::recorder::write(std::string const&, std::string const&, std::uint64_t,
                                         detail::board const&) const;

// -- Processes of one machine.

TUTTI_USUAL class detail::faults<shm>;
TUTTI_USUAL class detail::engine<shm>;
TUTTI_USUAL class communicator<shm>;
TUTTI_USUAL detail::plan detail::make_plan(detail::engine<shm>&, detail::request const&, std::source_location);
TUTTI_USUAL class detail::running_call<shm>;
TUTTI_USUAL class detail::call_queue<shm>;
TUTTI_USUAL class detail::in_flight<shm>;
TUTTI_USUAL class detail::queued_call<shm>;
TUTTI_USUAL class detail::beginning_call<shm>;
TUTTI_USUAL detail::running_call<shm> detail::open(communicator<shm>&, detail::request const&, options const&,
                                                   std::string_view, std::string_view, std::source_location);
TUTTI_USUAL detail::beginning_call<shm> detail::open(detail::queued_call<shm>&, detail::request, options const&,
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
TUTTI_USUAL void detail::execute_packets<collective::broadcast>(detail::engine<shm>&, detail::running_call<shm>&,
                                                                detail::request const&, detail::moving,
                                                                std::byte const*, std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::broadcast>(detail::engine<shm>&,
                                                                            detail::running_call<shm>&,
                                                                            detail::request const&, detail::moving,
                                                                            detail::surfaces<std::byte>&, std::size_t);
TUTTI_USUAL void detail::execute_packets<collective::all_gather>(detail::engine<shm>&, detail::running_call<shm>&,
                                                                 detail::request const&, detail::moving,
                                                                 std::byte const*, std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::all_gather>(detail::engine<shm>&,
                                                                             detail::running_call<shm>&,
                                                                             detail::request const&, detail::moving,
                                                                             detail::surfaces<std::byte>&, std::size_t);
TUTTI_USUAL void detail::execute_packets<collective::gather>(detail::engine<shm>&, detail::running_call<shm>&,
                                                             detail::request const&, detail::moving, std::byte const*,
                                                             std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::gather>(detail::engine<shm>&,
                                                                         detail::running_call<shm>&,
                                                                         detail::request const&, detail::moving,
                                                                         detail::surfaces<std::byte>&, std::size_t);
TUTTI_USUAL void detail::execute_packets<collective::scatter>(detail::engine<shm>&, detail::running_call<shm>&,
                                                              detail::request const&, detail::moving, std::byte const*,
                                                              std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::scatter>(detail::engine<shm>&,
                                                                          detail::running_call<shm>&,
                                                                          detail::request const&, detail::moving,
                                                                          detail::surfaces<std::byte>&, std::size_t);
TUTTI_USUAL void detail::execute_packets<collective::all_to_all>(detail::engine<shm>&, detail::running_call<shm>&,
                                                                 detail::request const&, detail::moving,
                                                                 std::byte const*, std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::all_to_all>(detail::engine<shm>&,
                                                                             detail::running_call<shm>&,
                                                                             detail::request const&, detail::moving,
                                                                             detail::surfaces<std::byte>&, std::size_t);
TUTTI_USUAL void barrier<automatic>(communicator<shm>&, options const&, std::source_location);

// -- Threads of one process.

TUTTI_USUAL class detail::faults<loopback>;
TUTTI_USUAL class detail::engine<loopback>;
TUTTI_USUAL class communicator<loopback>;
TUTTI_USUAL detail::plan detail::make_plan(detail::engine<loopback>&, detail::request const&, std::source_location);
TUTTI_USUAL class detail::running_call<loopback>;
TUTTI_USUAL class detail::call_queue<loopback>;
TUTTI_USUAL class detail::in_flight<loopback>;
TUTTI_USUAL class detail::queued_call<loopback>;
TUTTI_USUAL class detail::beginning_call<loopback>;
TUTTI_USUAL detail::running_call<loopback> detail::open(communicator<loopback>&, detail::request const&, options const&,
                                                        std::string_view, std::string_view, std::source_location);
TUTTI_USUAL detail::beginning_call<loopback> detail::open(detail::queued_call<loopback>&, detail::request,
                                                          options const&, std::string_view, std::string_view,
                                                          std::source_location);

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
TUTTI_USUAL void detail::execute_packets<collective::broadcast>(detail::engine<loopback>&,
                                                                detail::running_call<loopback>&, detail::request const&,
                                                                detail::moving, std::byte const*, std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::broadcast>(detail::engine<loopback>&,
                                                                            detail::running_call<loopback>&,
                                                                            detail::request const&, detail::moving,
                                                                            detail::surfaces<std::byte>&, std::size_t);
TUTTI_USUAL void detail::execute_packets<collective::all_gather>(detail::engine<loopback>&,
                                                                 detail::running_call<loopback>&,
                                                                 detail::request const&, detail::moving,
                                                                 std::byte const*, std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::all_gather>(detail::engine<loopback>&,
                                                                             detail::running_call<loopback>&,
                                                                             detail::request const&, detail::moving,
                                                                             detail::surfaces<std::byte>&, std::size_t);
TUTTI_USUAL void detail::execute_packets<collective::gather>(detail::engine<loopback>&, detail::running_call<loopback>&,
                                                             detail::request const&, detail::moving, std::byte const*,
                                                             std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::gather>(detail::engine<loopback>&,
                                                                         detail::running_call<loopback>&,
                                                                         detail::request const&, detail::moving,
                                                                         detail::surfaces<std::byte>&, std::size_t);
TUTTI_USUAL void detail::execute_packets<collective::scatter>(detail::engine<loopback>&,
                                                              detail::running_call<loopback>&, detail::request const&,
                                                              detail::moving, std::byte const*, std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::scatter>(detail::engine<loopback>&,
                                                                          detail::running_call<loopback>&,
                                                                          detail::request const&, detail::moving,
                                                                          detail::surfaces<std::byte>&, std::size_t);
TUTTI_USUAL void detail::execute_packets<collective::all_to_all>(detail::engine<loopback>&,
                                                                 detail::running_call<loopback>&,
                                                                 detail::request const&, detail::moving,
                                                                 std::byte const*, std::byte*);
TUTTI_USUAL void detail::execute_schedule<automatic, collective::all_to_all>(detail::engine<loopback>&,
                                                                             detail::running_call<loopback>&,
                                                                             detail::request const&, detail::moving,
                                                                             detail::surfaces<std::byte>&, std::size_t);
TUTTI_USUAL void barrier<automatic>(communicator<loopback>&, options const&, std::source_location);

}  // namespace tutti

#endif
