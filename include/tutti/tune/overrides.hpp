// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What overrides the choice of an algorithm: TUTTI_ALGORITHM.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "tutti/algorithm/registry.hpp"
#include "tutti/core/error.hpp"

namespace tutti::detail {

// What the user asks for in TUTTI_ALGORITHM: a comma-separated list of `algorithm` (for every collective that it
// serves) or `collective=algorithm`; later entries win.
class overrides {
 public:
  overrides() = default;
  explicit overrides(std::string_view text) {
    while (!text.empty()) {
      std::string_view const entry = text.substr(0, text.find(','));
      text.remove_prefix(entry.size() < text.size() ? entry.size() + 1 : text.size());
      add(entry);
    }
  }

  algorithm_id operator[](collective c) const { return ids_[static_cast<std::size_t>(c)]; }

 private:
  [[gnu::cold]] void add(std::string_view entry) {
    std::size_t const equals = entry.find('=');
    std::string_view const algorithm = equals == std::string_view::npos ? entry : entry.substr(equals + 1);
    algorithm_id const id = find_algorithm(algorithm);
    if (id == algorithm_id::automatic && algorithm != automatic::name)
      refuse(entry, "\"" + std::string(algorithm) + "\" is not an algorithm",
             "algorithms are: " + listed(algorithm_names));
    bool known = false;
    for (collective const c : every_collective) {
      if (equals == std::string_view::npos ? id != algorithm_id::automatic && !is_served(id, c)
                                           : name(c) != entry.substr(0, equals))
        continue;
      known = true;
      if (id != algorithm_id::automatic && !is_served(id, c))
        refuse(entry, std::string(algorithm) + " does not serve " + std::string(name(c)),
               "`tutti-sim list` prints who serves what");
      ids_[static_cast<std::size_t>(c)] = id;
    }
    if (!known)
      refuse(entry, "\"" + std::string(entry.substr(0, equals)) + "\" is not a collective",
             "write collective=algorithm, e.g. all_reduce=ring");
  }
  [[noreturn, gnu::cold]] static void refuse(std::string_view entry, std::string const& what,
                                             std::string const& way_out) {
    throw error({.code = error_code::bad_argument,
                 .what = "TUTTI_ALGORITHM: in \"" + std::string(entry) + "\", " + what,
                 .way_out = way_out});
  }
  template <class Names>
  static std::string listed(Names const& all) {
    std::string out;
    for (std::string_view const n : all) out += (out.empty() ? "" : ", ") + std::string(n);
    return out;
  }

  std::array<algorithm_id, every_collective.size()> ids_{};
};

}  // namespace tutti::detail
