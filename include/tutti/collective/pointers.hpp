// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls in the manner of MPI and NCCL, with pointers and counts, are refused with a sentence in place of a list of overloads.
#pragma once

#include <concepts>
#include <type_traits>

#include "tutti/call/accepted.hpp"
#include "tutti/call/options.hpp"

namespace tutti {
namespace detail {

// A count in the arguments of a collective: a number that is not a root, after which only options may follow.
template <class...>
inline constexpr bool has_count = false;
template <class First, class Next, class... Others>
inline constexpr bool has_count<First, Next, Others...> =
    (std::integral<std::remove_cvref_t<First>> && !std::same_as<std::remove_cvref_t<Next>, options>) ||
    has_count<Next, Others...>;

template <class...>
inline constexpr bool has_pointer = false;
template <class Comm, class Data, class... Others>
inline constexpr bool has_pointer<Comm, Data, Others...> =
    host_ranks<Comm> && std::is_pointer_v<std::remove_cvref_t<Data>>;

template <class...>
inline constexpr bool is_mpi_call = false;
template <class Comm, class Data, class... Others>
inline constexpr bool is_mpi_call<Comm, Data, Others...> =
    host_ranks<Comm> && (has_pointer<Comm, Data> || has_count<Others...>);

template <class Comm, class Data, class... Others>
void refuse_mpi_call() {
  if constexpr (!expect_communicator<Comm>() || !expect_array<Data>()) return;
  else
    static_assert(never<Data>,
                  "there is a number where none belongs; an array knows its size, so leave out the count "
                  "and the type, and pass part of an array as std::span(first, count)");
}

}  // namespace detail

// Not collectives and messages: their bodies do not compile.
template <class... A>
  requires detail::is_mpi_call<A...>
void all_reduce(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::is_mpi_call<A...>
void reduce(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::is_mpi_call<A...>
void broadcast(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::is_mpi_call<A...>
void reduce_scatter(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::is_mpi_call<A...>
void reduce_scatter_v(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::is_mpi_call<A...>
void all_gather(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::is_mpi_call<A...>
void all_gather_v(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::is_mpi_call<A...>
void gather(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::is_mpi_call<A...>
void gather_v(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::is_mpi_call<A...>
void scatter(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::is_mpi_call<A...>
void scatter_v(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::is_mpi_call<A...>
void all_to_all(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::is_mpi_call<A...>
void all_to_all_v(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::is_mpi_call<A...>
void scan(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::is_mpi_call<A...>
void exclusive_scan(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::has_pointer<A...>
void send(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::has_pointer<A...>
void recv(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::has_pointer<A...>
void send_recv(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::has_pointer<A...>
void isend(A&&...) {
  detail::refuse_mpi_call<A...>();
}
template <class... A>
  requires detail::has_pointer<A...>
void irecv(A&&...) {
  detail::refuse_mpi_call<A...>();
}

}  // namespace tutti
