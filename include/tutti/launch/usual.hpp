// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instantiations of the templates that most programs use, for the usual types. tutti::compiled contains them, so
// programs that link it do not compile them. This is the only list.
#pragma once

#include "tutti/core/config.hpp"

#if defined(TUTTI_COMPILED)

#include "tutti/call/communicator.hpp"
#include "tutti/call/perform.hpp"
#include "tutti/call/survive.hpp"
#include "tutti/collective/barrier.hpp"
#include "tutti/collective/split.hpp"
#include "tutti/fault/recorder.hpp"
#include "tutti/started/queue.hpp"
#include "tutti/transport/shared_memory/shm.hpp"
#include "tutti/transport/threads/loopback.hpp"

namespace tutti {
namespace detail {

// The notice board of both transports.
TUTTI_USUAL void observer::begin(std::uint64_t, board const&, int);
TUTTI_USUAL void observer::end(std::uint64_t, board const&, int);
TUTTI_USUAL void recorder::note_error(std::string const&, std::uint64_t, board const&);
TUTTI_USUAL void recorder::write_where_asked(std::string const&, std::uint64_t, board const&);
TUTTI_USUAL void recorder::write(std::string const&, std::string const&, std::uint64_t, board const&) const;

template <class T, class Op>
using usual_all_reduce = reduction<collective::all_reduce, automatic, T, Op>;
using usual_broadcast = movement<collective::broadcast, automatic, array_memory<std::byte>>;
template <collective C>
using usual_blocks = movement<C, automatic, block_memory<std::byte>>;
using usual_barrier = reduction<collective::barrier, automatic, unsigned char, bit_or, token_memory>;

}  // namespace detail

// -- Processes of one machine.

TUTTI_USUAL class detail::faults<shm>;
TUTTI_USUAL class detail::engine<shm>;
TUTTI_USUAL class communicator<shm>;
TUTTI_USUAL class detail::begun_call<shm>;
TUTTI_USUAL class detail::call_queue<shm>;
TUTTI_USUAL class detail::collective_queue<shm>;
TUTTI_USUAL class detail::queued_call<shm>;
TUTTI_USUAL void detail::complete(detail::engine<shm>&, detail::usual_all_reduce<float, sum>&);
TUTTI_USUAL void detail::complete(detail::engine<shm>&, detail::usual_all_reduce<double, sum>&);
TUTTI_USUAL void detail::complete(detail::engine<shm>&, detail::usual_all_reduce<int, sum>&);
TUTTI_USUAL void detail::complete(detail::engine<shm>&, detail::usual_all_reduce<long, sum>&);
TUTTI_USUAL void detail::complete(detail::engine<shm>&, detail::usual_all_reduce<float, max>&);
TUTTI_USUAL void detail::complete(detail::engine<shm>&, detail::usual_all_reduce<double, max>&);
TUTTI_USUAL void detail::complete(detail::engine<shm>&, detail::usual_all_reduce<int, max>&);
TUTTI_USUAL void detail::complete(detail::engine<shm>&, detail::usual_broadcast&);
TUTTI_USUAL void detail::complete(detail::engine<shm>&, detail::usual_blocks<collective::all_gather>&);
TUTTI_USUAL void detail::complete(detail::engine<shm>&, detail::usual_blocks<collective::gather>&);
TUTTI_USUAL void detail::complete(detail::engine<shm>&, detail::usual_blocks<collective::scatter>&);
TUTTI_USUAL void detail::complete(detail::engine<shm>&, detail::usual_blocks<collective::all_to_all>&);
TUTTI_USUAL void detail::complete(detail::engine<shm>&, detail::usual_barrier&);

// -- Threads of one process.

TUTTI_USUAL class detail::faults<loopback>;
TUTTI_USUAL class detail::engine<loopback>;
TUTTI_USUAL class communicator<loopback>;
TUTTI_USUAL class detail::begun_call<loopback>;
TUTTI_USUAL class detail::call_queue<loopback>;
TUTTI_USUAL class detail::collective_queue<loopback>;
TUTTI_USUAL class detail::queued_call<loopback>;
TUTTI_USUAL void detail::complete(detail::engine<loopback>&, detail::usual_all_reduce<float, sum>&);
TUTTI_USUAL void detail::complete(detail::engine<loopback>&, detail::usual_all_reduce<double, sum>&);
TUTTI_USUAL void detail::complete(detail::engine<loopback>&, detail::usual_all_reduce<int, sum>&);
TUTTI_USUAL void detail::complete(detail::engine<loopback>&, detail::usual_all_reduce<long, sum>&);
TUTTI_USUAL void detail::complete(detail::engine<loopback>&, detail::usual_all_reduce<float, max>&);
TUTTI_USUAL void detail::complete(detail::engine<loopback>&, detail::usual_all_reduce<double, max>&);
TUTTI_USUAL void detail::complete(detail::engine<loopback>&, detail::usual_all_reduce<int, max>&);
TUTTI_USUAL void detail::complete(detail::engine<loopback>&, detail::usual_broadcast&);
TUTTI_USUAL void detail::complete(detail::engine<loopback>&, detail::usual_blocks<collective::all_gather>&);
TUTTI_USUAL void detail::complete(detail::engine<loopback>&, detail::usual_blocks<collective::gather>&);
TUTTI_USUAL void detail::complete(detail::engine<loopback>&, detail::usual_blocks<collective::scatter>&);
TUTTI_USUAL void detail::complete(detail::engine<loopback>&, detail::usual_blocks<collective::all_to_all>&);
TUTTI_USUAL void detail::complete(detail::engine<loopback>&, detail::usual_barrier&);

}  // namespace tutti

#endif
