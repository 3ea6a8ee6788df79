// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of tune/overrides.hpp.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/tune/overrides.hpp"

namespace tutti::detail {

TUTTI_INLINE overrides::overrides(std::string_view text) {
  std::vector<std::string_view> named;  // the collectives of entries, and the algorithms that have none
  while (!text.empty()) {
    std::string_view const entry = text.substr(0, text.find(',')), name = entry.substr(0, entry.find('='));
    text.remove_prefix(entry.size() < text.size() ? entry.size() + 1 : text.size());
    add(entry);
    if (std::ranges::find(named, name) != named.end())
      refuse(entry, join({name, " is repeated"}),
             "name each collective, and each algorithm without a collective, once");
    named.push_back(name);
  }
}

TUTTI_INLINE void overrides::add(std::string_view entry) {
  std::size_t const equals = entry.find('=');
  std::string_view const algorithm = equals == std::string_view::npos ? entry : entry.substr(equals + 1);
  algorithm_id const id = find_algorithm(algorithm);
  if (id == algorithm_id::automatic && algorithm != automatic::name) {
    std::string all;
    for (std::string_view const n : algorithm_names) append(all, {all.empty() ? "" : ", ", n});
    refuse(entry, join({"\"", algorithm, "\" is not an algorithm"}), join({"algorithms are: ", all}));
  }
  bool known = false;
  for (collective const c : every_collective) {
    if (equals == std::string_view::npos ? id != algorithm_id::automatic && !is_served(id, c)
                                         : name(c) != entry.substr(0, equals))
      continue;
    known = true;
    if (id != algorithm_id::automatic && !is_served(id, c))
      refuse(entry, join({algorithm, " does not serve ", name(c)}),
             "`tutti-sim list` prints which algorithms support which collectives");
    ids_[static_cast<std::size_t>(c)] = id;
  }
  if (!known)
    refuse(entry, join({"\"", entry.substr(0, equals), "\" is not a collective"}),
           "write collective=algorithm, e.g. all_reduce=ring");
}

TUTTI_INLINE void overrides::refuse(std::string_view entry, std::string_view what, std::string_view way_out) {
  throw error({.code = error_code::bad_argument,
               .what = join({"TUTTI_ALGORITHM: in \"", entry, "\", ", what}),
               .way_out = std::string(way_out)});
}

}  // namespace tutti::detail
