// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which algorithm a call on devices names: by its type, or by its id out of a list of types.
#pragma once

#include <source_location>
#include <string>
#include <type_traits>

#include "tutti/algorithm/registry.hpp"
#include "tutti/call/legal.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/reduce/operation.hpp"

namespace tutti::detail {

[[gnu::cold, noreturn]] inline void refuse_call(text_part const& what, text_part const& way_out,
                                                std::source_location where) {
  throw error({.code = error_code::bad_argument,
               .what = std::string(what.view()),
               .way_out = std::string(way_out.view()),
               .where = where});
}

template <class Algorithm, collective C>
constexpr algorithm_id id_of(schedule<Algorithm, C>) {
  return find_algorithm(Algorithm::name);
}

// Calls f(schedule) for the algorithm that the call names.
template <class Algorithm>
struct named_algorithms {
  template <collective C, class Op, class F>
  static void visit(algorithm_id chosen, std::source_location where, F const& f) {
    expect_legal<Algorithm, C, Op>();
    if (chosen != algorithm_id::automatic && name(chosen) != Algorithm::name)
      refuse_call(join({"the call names ", Algorithm::name, " by its type and ", name(chosen), " in its options"}),
                  "name one of them", where);
    if constexpr (serves<Algorithm, C>) f(schedule<Algorithm, C>{});
  }
};
template <class... Algorithms>
struct named_algorithms<list<Algorithms...>> {
  template <collective C, class Op, class F>
  static void visit(algorithm_id chosen, std::source_location where, F const& f) {
    if (!(visit_one<Algorithms, C, Op>(chosen, f) || ...))
      refuse_call(join({name(chosen), " is none of the listed algorithms that serve this call"}),
                  "name one of the list by its id", where);
  }

 private:
  template <class Algorithm, collective C, class Op, class F>
  static bool visit_one(algorithm_id chosen, F const& f) {
    if (name(chosen) != Algorithm::name) return false;
    if constexpr (serves<Algorithm, C>) {
      if constexpr (std::is_void_v<Op> || is_commutative<Op> || !schedule<Algorithm, C>::needs_commutative) {
        f(schedule<Algorithm, C>{});
        return true;
      }
    }
    return false;
  }
};

}  // namespace tutti::detail
