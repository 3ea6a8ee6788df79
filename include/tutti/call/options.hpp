// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The options of a call.
#pragma once

#include <type_traits>

#include "tutti/core/time_limit.hpp"
#include "tutti/execute/plan.hpp"

namespace tutti {
namespace detail {

// An enumerator in options. Anything else is refused with a sentence.
template <class Enum>
struct chosen {
  constexpr chosen() = default;
  constexpr chosen(Enum one) : value(one) {}
  template <class Other>
  chosen(Other const&) {  // if constexpr, clang would instantiate it where std::variant only tries it
    static_assert(std::is_void_v<Other>,
                  "options name an algorithm as tutti::algorithm_id::ring, and a protocol as tutti::protocol::pull; an "
                  "algorithm's type goes before the arguments: all_reduce<tutti::ring>(comm, data)");
  }
  constexpr operator Enum() const { return value; }

  Enum value{};
};

}  // namespace detail

// algorithm, protocol   the same on all ranks; an impossible choice throws bad_argument before any communication
// timeout               0: that of the communicator (5 minutes, or TUTTI_TIMEOUT in seconds). It counts from the first
//                       nap of the call, a few milliseconds after its start
//
//   tutti::all_reduce(comm, in, out, tutti::sum{}, {.algorithm = tutti::algorithm_id::ring, .timeout = 5s});
struct options {
  detail::chosen<algorithm_id> algorithm = algorithm_id::automatic;
  detail::chosen<tutti::protocol> protocol = tutti::protocol::automatic;
  time_limit timeout{};

  friend bool operator==(options const&, options const&) = default;
};

}  // namespace tutti
