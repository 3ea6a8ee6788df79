// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long an all_reduce would take on machines that you do not have: the step functions that run on real ranks, run on
// clocks alone.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>

#include <tutti/algorithm/registry.hpp>
#include <tutti/analyze/cost.hpp>

namespace {

using tutti::algorithm_id, tutti::collective;
namespace analyze = tutti::analyze;

// A network of 2 us a message and 25 GB/s, and memory that combines 20 GB/s.
constexpr analyze::model network{.alpha = 2e-6, .beta = 1 / 25e9, .gamma = 1 / 20e9};

constexpr std::array candidates{algorithm_id::ring, algorithm_id::binomial_tree, algorithm_id::double_binary_tree};

double seconds(algorithm_id id, int ranks, double bytes) {
  // Slices grow with the message: about as many bytes in flight as pass in the time of some hops.
  double const slice = std::max(64e3, bytes / 256);
  return analyze::predict(tutti::find_schedule(id, collective::all_reduce), {.ranks = ranks}, {bytes, slice}, network);
}

std::string readable(double s) {
  char text[32];
  double const scale = s < 1e-3 ? 1e6 : s < 1 ? 1e3 : 1;
  std::snprintf(text, sizeof text, "%.*f %s", s * scale < 100 ? 1 : 0, s * scale, s < 1e-3 ? "us" : s < 1 ? "ms" : "s ");
  return text;
}

bool check(bool holds, char const* what) {
  std::printf("%s %s\n", holds ? "yes:" : "NO: ", what);
  return holds;
}

}  // namespace

int main() try {
  std::printf("all_reduce, predicted; * marks the fastest\n\n%10s %7s", "bytes", "ranks");
  for (algorithm_id const id : candidates) std::printf("%22s", std::string(name(id)).c_str());
  std::puts("");
  for (double const bytes : {8.0, 65536.0, 16e6, 1e9})
    for (int const ranks : {4, 64, 1024, 24756}) {
      std::array<double, candidates.size()> time;
      std::ranges::transform(candidates, time.begin(), [&](algorithm_id id) { return seconds(id, ranks, bytes); });
      std::printf("%10.0f %7d", bytes, ranks);
      for (double const t : time) std::printf("%20s %c", readable(t).c_str(), t == std::ranges::min(time) ? '*' : ' ');
      std::puts("");
    }

  // What papers give in closed form, read off the schedule: 2(p-1) hops and 2(p-1)/p messages' worth of bytes.
  auto const ring = analyze::terms_of(tutti::find_schedule(algorithm_id::ring, collective::all_reduce), {.ranks = 24756});
  std::printf("\na ring of 24,756 ranks: %.0f hops, %.6f times the message sent, %.6f combined\n", ring.hops, ring.sent,
              ring.combined);
  bool ok = check(ring.hops == 2 * 24755 && std::abs(ring.sent - 2 * 24755 / 24756.0) < 1e-9, "as the papers say");
  ok &= check(seconds(algorithm_id::ring, 24756, 8) > 100 * seconds(algorithm_id::binomial_tree, 24756, 8),
              "a ring of 24,756 ranks is a hundred times slower than a tree for 8 bytes");
  ok &= check(seconds(algorithm_id::ring, 4, 1e9) < seconds(algorithm_id::binomial_tree, 4, 1e9),
              "a ring of 4 ranks is faster than a tree for a gigabyte");
  ok &= check(seconds(algorithm_id::double_binary_tree, 24756, 1e9) < seconds(algorithm_id::binomial_tree, 24756, 1e9),
              "two trees share a gigabyte better than one");
  return ok ? 0 : 1;
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
