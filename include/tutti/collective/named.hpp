// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays that have names, reduced together; and a seed that all ranks share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unistd.h>
#include <vector>

#include "tutti/collective/all_reduce.hpp"
#include "tutti/collective/bytes.hpp"
#include "tutti/execute/plan.hpp"

namespace tutti {

// From a name to an array of elements, or to one element: std::map, std::unordered_map, ...
template <class M>
concept named_values = std::ranges::forward_range<M> && requires(std::ranges::range_reference_t<M> entry) {
  std::string_view{entry.first};
  requires mutable_buffer<decltype((entry.second))> || element<std::remove_cvref_t<decltype(entry.second)>>;
};

namespace detail {

template <class V>
auto values_of(V& value) {
  if constexpr (buffer<V>) return std::span(value);
  else return std::span(&value, 1);
}

// The name and size of each, by name.
template <class M>
auto by_name(M& map) {
  std::vector<std::ranges::iterator_t<M>> out;
  for (auto i = std::ranges::begin(map); i != std::ranges::end(map); ++i) out.push_back(i);
  std::ranges::sort(out, {}, [](auto const& i) { return std::string_view{i->first}; });
  return out;
}

// Says what another rank has that this one has not, by lists of lines.
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

}  // namespace detail

// Reduces arrays of the same name with each other, in one all_reduce: every rank passes the same names, in any order, with
// the same sizes, all of one element type, and gets the results in place.
// Order of combination: as all_reduce. Throws error: mismatch on all ranks where names or sizes differ, with the first
// that does; what all_gather and all_reduce throw.
//
//   std::map<std::string, std::vector<float>> losses = ...;
//   tutti::all_reduce_map(comm, losses, tutti::mean{});
template <class Algorithm = automatic, transport Transport, named_values Map, class Op = sum>
void all_reduce_map(communicator<Transport>& comm, Map& map, Op const& op = {}, options const& o = {},
                    std::source_location where = std::source_location::current()) {
  auto const entries = detail::by_name(map);
  using T = value_of<decltype(detail::values_of(entries[0]->second))>;
  std::string list;
  std::vector<T> all;
  for (auto const& entry : entries) {
    auto const values = detail::values_of(entry->second);
    list += detail::join({"'", std::string_view{entry->first}, "' of ", values.size(), "\n"});
    all.insert(all.end(), values.begin(), values.end());
  }

  std::uint64_t hash = entries.size();
  for (char const c : list) hash = detail::mix(hash, static_cast<unsigned char>(c));
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(comm.size()));
  all_gather(comm, std::span(&hash, 1), hashes, {}, where);
  if (std::ranges::count(hashes, hash) != comm.size()) {
    auto const lists = detail::all_gather_bytes(comm, detail::reason(0, list), where);
    auto const text = [&](std::size_t rank) {
      auto const bytes = lists.of(rank);
      return std::string_view(reinterpret_cast<char const*>(bytes.data()), bytes.size());
    };
    std::size_t peer = 0;
    while (text(peer) == list) ++peer;
    throw error({.code = error_code::mismatch,
                 .rank = comm.rank(),
                 .peer = static_cast<int>(peer),
                 .what = detail::join({"the names of all_reduce_map differ: ",
                                       detail::first_difference(list, text(peer), static_cast<int>(peer))}),
                 .way_out = "pass the same names and sizes on all ranks",
                 .where = where});
  }

  all_reduce<Algorithm>(comm, all, op, o, where);
  auto from = all.cbegin();
  for (auto const& entry : entries) {
    auto const values = detail::values_of(entry->second);
    std::ranges::copy_n(from, static_cast<std::ptrdiff_t>(values.size()), values.begin());
    from += static_cast<std::ptrdiff_t>(values.size());
  }
}

// For all ranks the seed that rank 0 passes, or, where it passes none, draws from the system. What others pass does not matter.
// Throws error: as broadcast; system.
//
//   std::mt19937_64 random(tutti::sync_random_seed(comm));
template <transport Transport>
std::uint64_t sync_random_seed(communicator<Transport>& comm, std::optional<std::uint64_t> seed = {},
                               std::source_location where = std::source_location::current()) {
  std::uint64_t out = seed.value_or(0);
  if (comm.rank() == 0 && !seed && ::getentropy(&out, sizeof out) != 0)
    throw error({.code = error_code::system,
                 .rank = 0,
                 .what = "the system has no random numbers (getentropy)",
                 .way_out = "pass a seed",
                 .where = where});
  broadcast(comm, std::span(&out, 1), 0, {}, where);
  return out;
}

}  // namespace tutti
