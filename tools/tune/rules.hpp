// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Derives rules, and the constants of the cost model, from measured times.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <vector>

#include "contest.hpp"
#include "tutti/tune/estimate.hpp"

namespace tuning {

// The winners for each size, smallest first. They minimise the product of all times, in which a change of winner between neighbouring
// sizes costs this factor, so that noise does not create rules (Viterbi's algorithm, 1967).
inline constexpr double price_of_change = 1.06;

inline std::vector<result> winners(std::vector<std::vector<result>> const& sizes, bool pulls) {
  struct way {
    double price;        // logarithm of the product up to this size
    std::size_t before;  // the winner of the size before
  };
  auto const same = [](result const& a, result const& b) { return a.algorithm == b.algorithm && a.how == b.how; };
  std::vector<std::vector<way>> ways;
  std::size_t last = 0;  // the cheapest way up to the previous size
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::vector<way> here;
    for (result const& r : sizes[i]) {
      way w{i == 0 ? 0 : ways[i - 1][last].price + std::log(price_of_change), last};
      for (std::size_t k = 0; i > 0 && k < sizes[i - 1].size(); ++k)
        if (same(sizes[i - 1][k], r) && ways[i - 1][k].price <= w.price) w = {ways[i - 1][k].price, k};
      bool const allowed = pulls || r.how == tutti::protocol::automatic;
      here.push_back({w.price + (allowed ? std::log(r.score()) : 1e9), w.before});
    }
    last = static_cast<std::size_t>(std::ranges::min_element(here, {}, &way::price) - here.begin());
    ways.push_back(std::move(here));
  }
  std::vector<result> out(sizes.size());
  for (std::size_t i = sizes.size(); i-- > 0; last = ways[i][last].before) out[i] = sizes[i][last];
  return out;
}

// The range of rank counts for which this one is the nearest measured count, by ratio.
inline std::pair<int, int> neighbours(std::vector<int> const& measured, int ranks) {
  double const root = std::sqrt(2.0);
  double least = ranks / root, most = ranks * root;
  for (int const other : measured) {
    double const middle = std::sqrt(static_cast<double>(other) * ranks);
    if (other < ranks) least = std::max(least, std::nextafter(middle, 1e9));
    if (other > ranks) most = std::min(most, middle);
  }
  return {std::max(2, static_cast<int>(std::ceil(least))), static_cast<int>(std::floor(most))};
}

// The rules for one collective and number of ranks, smallest size first. A rule ends at the geometric mean of two sizes.
inline std::vector<tutti::detail::rule> rules_of(std::vector<std::vector<result>> const& sizes, bool pulls) {
  std::vector<tutti::detail::rule> out;
  std::size_t before = 0;  // bytes
  for (result const& w : winners(sizes, pulls)) {
    if (!out.empty() && out.back().algorithm == w.algorithm && out.back().how == w.how) out.pop_back();
    else if (!out.empty())
      out.back().up_to = tutti::detail::rule::size_field(
          static_cast<std::size_t>(std::sqrt(static_cast<double>(before) * static_cast<double>(w.of.bytes))));
    out.push_back({.what = w.of.what,
                   .cores = w.crowded ? tutti::detail::occupancy::crowded : tutti::detail::occupancy::apart,
                   .algorithm = w.algorithm,
                   .how = w.how,
                   .nanoseconds = static_cast<std::uint32_t>(std::min(w.own.alone, 4e9)),
                   .measured_at = tutti::detail::rule::size_field(w.of.bytes)});
    before = w.of.bytes;
  }
  return out;
}

inline std::vector<tutti::detail::rule> rules_of(std::vector<result> const& results) {
  std::map<std::pair<tutti::collective, int>, std::map<std::size_t, std::vector<result>>> groups;
  std::vector<int> measured;
  for (result const& r : results) {
    groups[{r.of.what, r.of.ranks}][r.of.bytes].push_back(r);
    measured.push_back(r.of.ranks);
  }
  std::vector<tutti::detail::rule> out;
  for (auto const& [key, by_size] : groups) {
    std::vector<std::vector<result>> sizes;
    for (auto const& [bytes, at] : by_size) sizes.push_back(at);
    auto const add = [&, ranks = neighbours(measured, key.second)](std::vector<tutti::detail::rule> rules,
                                                                   tutti::detail::reach memory) {
      for (tutti::detail::rule& r : rules) {
        r.min_ranks = static_cast<std::uint16_t>(ranks.first);
        r.max_ranks = static_cast<std::uint16_t>(ranks.second);
        r.memory = memory;
        out.push_back(r);
      }
    };
    auto const open = rules_of(sizes, true), closed = rules_of(sizes, false);
    if (open == closed) {
      add(open, tutti::detail::reach::any);
    } else {
      add(open, tutti::detail::reach::pulls);
      add(closed, tutti::detail::reach::closed);
    }
  }
  return out;
}

// Fits the four constants of the cost model, all at least 0, by least squares of the relative errors, with coordinate descent. They
// do not describe fetched messages, which are left out. Constants on which no result depends stay as they are known: barriers and
// short messages tell nothing about bytes.
inline tutti::detail::costs fit(std::vector<result> const& results, bool crowded, tutti::detail::costs const& known) {
  struct sample {
    std::array<double, 4> terms;  // each divided by the measured time
  };
  std::map<std::pair<tutti::collective, std::pair<tutti::algorithm_id, int>>, tutti::detail::estimated_work> works;
  static constexpr std::size_t long_enough = 16384;
  std::array<bool, 4> is_measured{true, true, false, false};
  std::vector<sample> samples;
  for (result const& r : results) {
    if (r.crowded != crowded || r.how != tutti::protocol::automatic) continue;
    auto const [at, fresh] = works.try_emplace({r.of.what, {r.algorithm, r.of.ranks}});
    if (fresh) at->second = tutti::detail::work_of(tutti::find_schedule(r.algorithm, r.of.what), r.of.what, r.of.ranks);
    tutti::detail::problem const of{.what = r.of.what, .bytes = r.of.bytes, .ranks = r.of.ranks};
    tutti::protocol const how =
        is_packet(r.algorithm, of) ? tutti::protocol::packet : tutti::protocol::staged;  // in private arrays
    std::array<double, 4> terms{};
    for (std::size_t k = 0; k < terms.size(); ++k) {
      std::array<std::uint64_t, 4> unit{};
      unit[k] = 1'000'000;
      terms[k] = static_cast<double>(time_in_memory(at->second, of, {unit[0], unit[1], unit[2], unit[3]}, how)) / 1e9 /
                 r.own.alone;
    }
    for (std::size_t const k : {std::size_t{2}, std::size_t{3}})
      is_measured[k] |= r.of.bytes >= long_enough && terms[k] > 0;
    samples.push_back({terms});
  }
  if (samples.empty()) return known;
  auto const start = [](std::uint64_t constant) { return static_cast<double>(constant); };
  std::array x{start(known.hop), start(known.message), start(known.sent), start(known.combined)};
  for (int turn = 0; turn < 1000; ++turn)
    for (std::size_t k = 0; k < x.size(); ++k) {
      double above = 0, below = 0;
      for (sample const& s : samples) {
        double rest = 1;
        for (std::size_t j = 0; j < x.size(); ++j)
          if (j != k) rest -= x[j] * s.terms[j];
        above += rest * s.terms[k];
        below += s.terms[k] * s.terms[k];
      }
      if (below > 0 && is_measured[k]) x[k] = std::max(0.0, above / below);
    }
  // Two ranks alone cannot distinguish a hop from a message, and a free message would favour large fan-ins.
  x[1] = std::max(x[1], x[0] / 4);
  auto const whole = [](double value) { return static_cast<std::uint64_t>(std::llround(value)); };
  return {whole(x[0]), whole(x[1]), whole(x[2]), whole(x[3])};
}

}  // namespace tuning
