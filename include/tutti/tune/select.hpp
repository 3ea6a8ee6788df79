// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The default choice of algorithm, by size and ranks, and what overrides it.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "tutti/algorithm/registry.hpp"
#include "tutti/core/error.hpp"
#include "tutti/tune/problem.hpp"

namespace tutti {

struct choice {
  algorithm_id algorithm;
  std::string_view why;
};

// Where one algorithm gives way to the next, in bytes.
struct thresholds {
  std::size_t one_shot;  // one hop, ranks times the bytes: latency decides
  std::size_t few_hops;  // logarithmic hops of whole messages; above it bandwidth decides
};

// shm on 2 cores of an AMD EPYC 9004 (Zen 4), 2, 4 and 8 ranks, 2026-11-21: `bench_shm_vs_mpi --mode it --algorithm
// one_shot,two_shot,...` over private and shared arrays.
inline constexpr thresholds measured{.one_shot = 64 * 1024, .few_hops = 256 * 1024};

// Why an algorithm can't be used for a problem; empty where it can.
constexpr std::string_view objection(dynamic_schedule const& s, problem const& p) {
  if (!s) return "it does not serve this collective";
  if (s.needs_commutative && !p.commutative)
    return "it combines contributions out of rank order and the operation is not commutative";
  if (p.ragged && !s.ragged) return "it does not serve the _v form";
  return {};
}
constexpr std::string_view objection(algorithm_id id, problem const& p) {
  return objection(find_schedule(id, p.what), p);
}

// The tuned choice.
constexpr choice select(problem const& p) {
  bool const small = p.bytes <= measured.one_shot / static_cast<std::size_t>(p.ranks), few = p.ranks <= 8;
  bool const medium = p.bytes <= measured.few_hops;
  switch (p.what) {
    case collective::barrier:
      if (few) return {algorithm_id::one_shot, "few ranks: one hop"};
      return {algorithm_id::dissemination, "many ranks: logarithmic hops, no root"};
    case collective::all_reduce:
      if (small && few) return {algorithm_id::one_shot, "small message: one hop"};
      if (medium && !few) return {algorithm_id::recursive_doubling, "small message, many ranks: fewest hops"};
      return {algorithm_id::two_shot, "large message: least bytes in two hops"};
    case collective::reduce:
      if (small && few) return {algorithm_id::one_shot, "small message: one hop"};
      if (p.ranks == 2) return {algorithm_id::double_binary_tree, "two ranks: each combines half"};
      if (medium)
        return {algorithm_id::binomial_tree, "medium message: logarithmic hops, each rank combines what came"};
      return {algorithm_id::two_shot, "large message: least bytes in two hops"};
    case collective::broadcast:
      if (few) return {algorithm_id::one_shot, "few ranks: the root's memory is read by each once"};
      if (medium) return {algorithm_id::binomial_tree, "small message, many ranks: logarithmic hops"};
      return {algorithm_id::double_binary_tree, "large message, many ranks: two trees share the bytes"};
    case collective::reduce_scatter: return {algorithm_id::one_shot, "one hop at the least number of bytes"};
    case collective::all_gather:
      if (few || !medium) return {algorithm_id::one_shot, "one hop at the least number of bytes"};
      return {algorithm_id::bruck, "small blocks, many ranks: logarithmic hops"};
    case collective::gather:
    case collective::scatter:
      if (!few && medium && !p.ragged)
        return {algorithm_id::binomial_tree, "small blocks, many ranks: logarithmic hops"};
      return {algorithm_id::one_shot, "one hop at the least number of bytes"};
    case collective::all_to_all:
      if (few) return {algorithm_id::one_shot, "one hop at the least number of bytes"};
      if (small && !p.ragged) return {algorithm_id::bruck, "small blocks, many ranks: logarithmic hops"};
      return {algorithm_id::pairwise, "large blocks, many ranks: one partner at a time"};
    case collective::scan:
    case collective::exclusive_scan:
      if (small && few) return {algorithm_id::one_shot, "small message: one hop"};
      if (medium) return {algorithm_id::recursive_doubling, "small message, many ranks: logarithmic hops"};
      return {algorithm_id::ring, "large message: slices stream along the chain"};
  }
  return {algorithm_id::one_shot, ""};
}

// What the user asks for in TUTTI_ALGORITHM: a comma-separated list of `algorithm` (for every collective that it serves)
// or `collective=algorithm`; later entries win.
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
             "algorithms are: " + listed(algorithms::names));
    bool known = false;
    for (collective const c : every_collective) {
      if (equals == std::string_view::npos ? id != algorithm_id::automatic && !find_schedule(id, c)
                                           : name(c) != entry.substr(0, equals))
        continue;
      known = true;
      if (id != algorithm_id::automatic && !find_schedule(id, c))
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

}  // namespace tutti
