// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce of arrays by name, and a random seed that all ranks share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tutti/call/accepted.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/collective/bytes.hpp"
#include "tutti/core/hash.hpp"
#include "tutti/execute/plan.hpp"

namespace tutti {

// A map from names to arrays of elements, or to single elements: std::map, std::unordered_map, ...
template <class M>
concept named_values = std::ranges::forward_range<M> && requires(std::ranges::range_reference_t<M> entry) {
  std::string_view{entry.first};
  requires(detail::in_place_argument<decltype((entry.second))> &&
           std::ranges::contiguous_range<decltype((entry.second))>) ||
              element<std::remove_cvref_t<decltype(entry.second)>>;
};

namespace detail {

// An array of a map, or a number.
template <class M>
using named_value = decltype((std::declval<std::ranges::range_reference_t<M>>().second));

// The entries, sorted by name.
template <class M>
auto by_name(M& map) {
  std::vector<std::ranges::iterator_t<M>> out;
  for (auto i = std::ranges::begin(map); i != std::ranges::end(map); ++i) out.push_back(i);
  std::ranges::sort(out, {}, [](auto const& i) { return std::string_view{i->first}; });
  return out;
}

// Adds a line for an array. Line breaks in names are escaped, so different arrays give different lists.
inline void list_array(std::string& list, std::string_view name, std::size_t size) {
  list += '\'';
  for (char const c : name)
    if (c == '\n') list += "\\n";
    else if (c == '\\') list += "\\\\";
    else list += c;
  list += join({"' of ", size, "\n"});
}

// The first line in which the lists of two ranks differ.
[[gnu::cold]] inline std::string first_difference(std::string_view mine, std::string_view theirs, int peer) {
  auto const line = [](std::string_view& list) {
    std::string_view const out = list.substr(0, list.find('\n'));
    list.remove_prefix(std::min(list.size(), out.size() + 1));
    return out;
  };
  for (;;) {
    std::string_view const a = line(mine), b = line(theirs);
    if (a != b)
      return join({"this rank has ", a.empty() ? "no further array" : a, " where rank ", peer, " has ",
                   b.empty() ? "none" : b});
  }
}

template <class Algorithm, class Comm, class Map, class Op>
void all_reduce_named(Comm& comm, Map& map, Op const& op, options const& o, std::source_location where) {
  comm.expect_usable(where);
  auto const entries = by_name(map);
  using T = element_in<named_value<Map>>;
  std::string list;
  std::size_t size = 0;
  for (auto const& entry : entries) {
    std::size_t const more = elements(entry->second).size();
    list_array(list, entry->first, more);
    size += more;
  }

  std::uint64_t const hash = hash_of(list);
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(comm.size()));
  all_gather(comm, std::span(&hash, 1), hashes, {}, where);
  auto const other = std::ranges::find_if(hashes, [&](std::uint64_t one) { return one != hash; });
  if (other != hashes.end()) {
    auto const lists = all_gather_bytes(comm, bytes_of(list), where);
    auto const peer = static_cast<std::size_t>(other - hashes.begin());
    auto const theirs = lists.of(peer);
    throw error({.code = error_code::mismatch,
                 .rank = comm.rank(),
                 .peer = static_cast<int>(peer),
                 .what = join({"the names of all_reduce_map differ: ",
                               first_difference(list, {reinterpret_cast<char const*>(theirs.data()), theirs.size()},
                                                static_cast<int>(peer))}),
                 .way_out = "pass the same names and sizes on all ranks",
                 .where = where});
  }

  auto const all = std::make_unique_for_overwrite<T[]>(size);  // std::vector<bool> would not be contiguous
  T* to = all.get();
  for (auto const& entry : entries) to = std::ranges::copy(elements(entry->second), to).out;
  all_reduce<Algorithm>(comm, std::span(all.get(), size), op, o, where);
  T const* from = all.get();
  for (auto const& entry : entries) {
    auto const values = elements(entry->second);
    std::copy_n(from, values.size(), values.begin());
    from += values.size();
  }
}

}  // namespace detail

// Combines arrays by name, all of them in one all_reduce, each in place.
//
// Every rank passes a map from the same names, in any order, to arrays of the same sizes or to numbers, all of one
// element type. Blocking calls only.
// Order of combination: as all_reduce.
// Throws error: mismatch on all ranks, with the first difference, if names or sizes differ; the errors of all_gather
// and all_reduce.
// Cost: an all_gather of 8 bytes from each rank, and one all_reduce.
//
//   std::map<std::string, std::vector<float>> losses = ...;
//   tutti::all_reduce_map(comm, losses, tutti::mean{});
template <class Algorithm = automatic, class Comm, class Map, class Op = sum>
void all_reduce_map(Comm&& comm, Map&& map, Op const& op = {}, options const& o = {},
                    std::source_location where = std::source_location::current()) {
  if constexpr (!detail::expect_blocking<Comm>()) return;
  else if constexpr (!named_values<Map>)
    static_assert(detail::never<Map>,
                  "all_reduce_map takes a map from names to arrays or numbers that it can write to, such as a "
                  "std::map<std::string, std::vector<float>>");
  else if constexpr (detail::expect_array_or_element<detail::named_value<Map>>()) {
    if constexpr (detail::expect_operation<Op, detail::element_in<detail::named_value<Map>>>())
      detail::all_reduce_named<Algorithm>(comm, map, op, o, where);
  }
}

// Returns the same seed on all ranks: the one that rank 0 passes or, if it passes none, one from the system's random
// numbers. The arguments of other ranks are ignored.
// Throws error: as broadcast; system.
// Cost: a broadcast of 8 bytes.
//
//   std::mt19937_64 random(tutti::sync_random_seed(comm));
template <class Comm>
[[nodiscard]] std::uint64_t sync_random_seed(Comm&& comm, std::optional<std::uint64_t> seed = {},
                                             std::source_location where = std::source_location::current()) {
  std::uint64_t out = seed.value_or(0);
  if constexpr (detail::expect_blocking<Comm>()) {
    if (comm.rank() == 0 && !seed && ::getentropy(&out, sizeof out) != 0)
      throw error({.code = error_code::system,
                   .rank = 0,
                   .what = "cannot get random numbers from the system (getentropy)",
                   .way_out = "pass a seed",
                   .where = where});
    broadcast(comm, std::span(&out, 1), 0, {}, where);
  }
  return out;
}

}  // namespace tutti
