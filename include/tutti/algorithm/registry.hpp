// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algorithms of the library. A new one adds its include, its id and its type here; tests, tools and the choice of an
// algorithm then find which collectives it serves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "tutti/algorithm/binomial_tree.hpp"
#include "tutti/algorithm/bruck.hpp"
#include "tutti/algorithm/dissemination.hpp"
#include "tutti/algorithm/double_binary_tree.hpp"
#include "tutti/algorithm/dynamic.hpp"
#include "tutti/algorithm/one_shot.hpp"
#include "tutti/algorithm/pairwise.hpp"
#include "tutti/algorithm/recursive_doubling.hpp"
#include "tutti/algorithm/recursive_halving.hpp"
#include "tutti/algorithm/ring.hpp"
#include "tutti/algorithm/two_shot.hpp"

namespace tutti {

// Names an algorithm at run time. `automatic` leaves the choice to the library.
enum class algorithm_id : std::uint8_t {
  automatic,
  ring,
  binomial_tree,
  double_binary_tree,
  recursive_doubling,
  recursive_halving,
  bruck,
  pairwise,
  dissemination,
  one_shot,
  two_shot,
  // Not schedules:
  native,
  two_level,
};

// A list of algorithms.
template <class... Algorithms>
struct list {
  static constexpr std::size_t size = sizeof...(Algorithms);
  static constexpr std::array<std::string_view, size> names{Algorithms::name...};
};

// In the order of algorithm_id.
using algorithms = list<ring, binomial_tree, double_binary_tree, recursive_doubling, recursive_halving, bruck, pairwise,
                        dissemination, one_shot, two_shot>;

// As an algorithm named at compile time: leaves the choice to the library.
struct automatic {
  static constexpr std::string_view name = "automatic";
};

// Not a schedule: the collective of the library that the transport uses, such as MPI_Allreduce.
struct native {
  static constexpr std::string_view name = "native";
};

// Not a schedule: first the ranks of each node work together and then the nodes, by an algorithm for each, as in
// two_level<ring, ring>. Where an algorithm does not serve its part, the library chooses one.
template <class Inside = automatic, class Across = automatic>
struct two_level {
  static constexpr std::string_view name = "two_level";
  using inside = Inside;
  using across = Across;
};

namespace detail {

// All names of algorithms, in the order of algorithm_id.
inline constexpr auto algorithm_names = [] {
  std::array<std::string_view, algorithms::size + 3> out{automatic::name};
  for (std::size_t i = 0; i < algorithms::size; ++i) out[i + 1] = algorithms::names[i];
  out[algorithms::size + 1] = native::name;
  out[algorithms::size + 2] = two_level<>::name;
  return out;
}();

}  // namespace detail

// The name of an algorithm, such as "ring".
[[gnu::cold]] constexpr std::string_view name(algorithm_id id) {
  if (id > algorithm_id::two_level) return "an algorithm that does not exist";
  return detail::algorithm_names[static_cast<std::size_t>(id)];
}

// Whether an algorithm consists of schedules, unlike automatic, native and two_level.
constexpr bool is_scheduled(algorithm_id id) { return id > algorithm_id::automatic && id < algorithm_id::native; }

namespace detail {

template <algorithm_id Id>
constexpr std::string_view enumerator() {
  std::string_view text = __PRETTY_FUNCTION__;  // "... [with tutti::algorithm_id Id = tutti::algorithm_id::ring; ..."
  text.remove_prefix(text.find("Id = ") + 5);
  text = text.substr(0, text.find_first_of(";]"));
  return text.substr(text.rfind(':') + 1);
}
template <std::size_t... I>
constexpr bool ids_match(std::index_sequence<I...>) {
  return ((enumerator<static_cast<algorithm_id>(I)>() == algorithm_names[I]) && ...);
}
static_assert(ids_match(std::make_index_sequence<algorithm_names.size()>{}), "algorithm_id and algorithms must agree");

template <class What, class Algorithm, collective C>
constexpr What of_schedule_or_none() {
  if constexpr (serves<Algorithm, C>) return What::template of<schedule<Algorithm, C>>();
  else return {};
}
template <class What, collective C, class... Algorithms>
constexpr std::array<What, sizeof...(Algorithms)> by_algorithm(list<Algorithms...>) {
  return {of_schedule_or_none<What, Algorithms, C>()...};
}
template <collective C>
inline constexpr auto schedules_of = by_algorithm<dynamic_schedule, C>(algorithms{});
inline constexpr auto property_table = []<std::size_t... C>(std::index_sequence<C...>) {
  return std::array{by_algorithm<schedule_properties, every_collective[C]>(algorithms{})...};
}(std::make_index_sequence<every_collective.size()>{});

}  // namespace detail

// The properties of an algorithm's schedule for a collective; empty (false) if the algorithm does not serve it.
constexpr schedule_properties properties_of(algorithm_id id, collective c) {
  if (!is_scheduled(id)) return {};
  return detail::property_table[static_cast<std::size_t>(c)][static_cast<std::size_t>(id) - 1];
}

// The schedule itself; empty (false) if the algorithm does not serve the collective. A program that calls this compiles
// every schedule of the library.
dynamic_schedule find_schedule(algorithm_id id, collective c);

namespace detail {

// find_schedule, or find_schedule_of a collective. Calls pass the latter on, so that a program compiles the schedules of
// the collectives that it calls, and no others.
using schedule_finder = dynamic_schedule(algorithm_id, collective);

// The same for C alone; empty for any other.
template <collective C>
dynamic_schedule find_schedule_of(algorithm_id id, collective c) {
  if (!is_scheduled(id) || c != C) return {};
  return schedules_of<C>[static_cast<std::size_t>(id) - 1];
}

}  // namespace detail

// The id with this name, or `automatic` if there is none.
[[gnu::cold]] constexpr algorithm_id find_algorithm(std::string_view wanted) {
  for (std::size_t i = 1; i < detail::algorithm_names.size(); ++i)
    if (detail::algorithm_names[i] == wanted) return static_cast<algorithm_id>(i);
  return algorithm_id::automatic;
}

// Whether two levels serve the _v form of a collective: where all ranks know all counts, so that representatives know what
// their nodes exchange, and all ranks choose alike.
constexpr bool has_two_levels_v(collective c) { return c == collective::all_gather || c == collective::reduce_scatter; }

// Whether an algorithm serves a collective; for native and two_level, if the transport supports them.
constexpr bool is_served(algorithm_id id, collective c) {
  return id == algorithm_id::native || id == algorithm_id::two_level || static_cast<bool>(properties_of(id, c));
}

// Calls f(algorithm_id, collective, dynamic_schedule) for every pair that is served.
template <class F>
void for_each_schedule(F f) {
  for (std::size_t i = 1; i <= algorithms::size; ++i)
    for (collective const c : every_collective)
      if (auto const s = find_schedule(static_cast<algorithm_id>(i), c)) f(static_cast<algorithm_id>(i), c, s);
}

}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/algorithm/registry_impl.hpp"
#endif
