// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls in the manner of MPI and NCCL, with pointers and counts, are refused with a sentence in place of a list of overloads.
#pragma once

#include <type_traits>

#include "tutti/call/accepted.hpp"

namespace tutti {
namespace detail {

template <class Comm, class Data>
concept pointer_call = host_ranks<Comm> && std::is_pointer_v<std::remove_cvref_t<Data>>;

template <class Data>
void refuse_pointer() {
  static_cast<void>(expect_array<Data>());
}

}  // namespace detail

// Not collectives: their bodies do not compile.
template <class Comm, class Data, class... Others>
  requires detail::pointer_call<Comm, Data>
void all_reduce(Comm&&, Data&&, Others&&...) {
  detail::refuse_pointer<Data>();
}
template <class Comm, class Data, class... Others>
  requires detail::pointer_call<Comm, Data>
void reduce(Comm&&, Data&&, Others&&...) {
  detail::refuse_pointer<Data>();
}
template <class Comm, class Data, class... Others>
  requires detail::pointer_call<Comm, Data>
void broadcast(Comm&&, Data&&, Others&&...) {
  detail::refuse_pointer<Data>();
}
template <class Comm, class Data, class... Others>
  requires detail::pointer_call<Comm, Data>
void reduce_scatter(Comm&&, Data&&, Others&&...) {
  detail::refuse_pointer<Data>();
}
template <class Comm, class Data, class... Others>
  requires detail::pointer_call<Comm, Data>
void all_gather(Comm&&, Data&&, Others&&...) {
  detail::refuse_pointer<Data>();
}
template <class Comm, class Data, class... Others>
  requires detail::pointer_call<Comm, Data>
void gather(Comm&&, Data&&, Others&&...) {
  detail::refuse_pointer<Data>();
}
template <class Comm, class Data, class... Others>
  requires detail::pointer_call<Comm, Data>
void all_to_all(Comm&&, Data&&, Others&&...) {
  detail::refuse_pointer<Data>();
}
template <class Comm, class Data, class... Others>
  requires detail::pointer_call<Comm, Data>
void recv(Comm&&, Data&&, Others&&...) {
  detail::refuse_pointer<Data>();
}

}  // namespace tutti
