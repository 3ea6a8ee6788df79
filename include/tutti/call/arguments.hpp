// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which algorithm a call names, by its type or in its options.
#pragma once

#include <source_location>
#include <type_traits>

#include "tutti/call/check_arguments.hpp"
#include "tutti/call/communicator.hpp"
#include "tutti/call/legal.hpp"
#include "tutti/call/options.hpp"
#include "tutti/core/is_a.hpp"
#include "tutti/core/text.hpp"

namespace tutti::detail {

template <class Algorithm, class List>
inline constexpr bool listed = false;
template <class Algorithm, class... Algorithms>
inline constexpr bool listed<Algorithm, list<Algorithms...>> = (std::is_same_v<Algorithm, Algorithms> || ...);

// A named algorithm counts like one that was asked for in the options.
template <class Algorithm>
constexpr algorithm_id id_of(options const& o) {
  if constexpr (std::is_same_v<Algorithm, automatic>) {
    return o.algorithm;
  } else if constexpr (listed<Algorithm, algorithms> || std::is_same_v<Algorithm, native> ||
                       is_a<Algorithm, two_level>) {
    constexpr algorithm_id id = find_algorithm(Algorithm::name);  // not in every call
    return id;
  } else {
    return algorithm_id::automatic;
  }
}

// Whether the named algorithm may be used: refused at compile time, but for options that name another one as well.
template <class Algorithm, collective C, class Op, class Comm>
void check_algorithm(Comm const& comm, options const& o, std::source_location where) {
  using Transport = typename Comm::transport_type;
  if constexpr (std::is_same_v<Algorithm, native>)
    static_assert(has_native_collectives<Transport>,
                  "native hands a call to the collectives of the transport's own library, and this transport has none; "
                  "use it over tutti::mpi");
  else if constexpr (is_a<Algorithm, two_level>)
    static_assert(has_levels<Transport>,
                  "two_level works inside nodes and then across them; use it over tutti::hierarchical");
  else if constexpr (!std::is_same_v<Algorithm, automatic>) expect_legal<Algorithm, C, Op>();
  if constexpr (!std::is_same_v<Algorithm, automatic>) {
    if (comm.size() > 1 && o.algorithm != algorithm_id::automatic && o.algorithm != id_of<Algorithm>(o))
      refuse(comm.rank(),
             join({"the call names ", Algorithm::name, " by its type and ", name(o.algorithm), " in its options"}),
             "name one of them", where);
  }
}

}  // namespace tutti::detail
