// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Predicts how long an all_reduce would take on machines that you do not have. The simulator calls the same step functions
// that real ranks execute.
// labels: computes
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
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
constexpr std::array messages{8.0, 65536.0, 16e6, 1e9};
constexpr std::array groups{4, 64, 1024, 24756};

// Trees stream a long message in 16 slices; a ring's chunks are smaller than that by themselves.
double seconds(algorithm_id id, int ranks, double bytes) {
  double const slice = std::max(64e3, bytes / 16);
  return analyze::predict(tutti::find_schedule(id, collective::all_reduce), {.ranks = ranks}, {bytes, slice}, network);
}

std::string readable(double s) {
  char text[32];
  double const scale = s < 1e-3 ? 1e6 : s < 1 ? 1e3 : 1;
  std::snprintf(text, sizeof text, "%.*f %s", s * scale < 100 ? 1 : 0, s * scale,
                s < 1e-3 ? "us"
                : s < 1  ? "ms"
                         : "s ");
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
  double time[messages.size()][groups.size()][candidates.size()];
  for (std::size_t m = 0; m < messages.size(); ++m)
    for (std::size_t g = 0; g < groups.size(); ++g) {
      auto& row = time[m][g];
      std::ranges::transform(candidates, row, [&](algorithm_id id) { return seconds(id, groups[g], messages[m]); });
      std::printf("%10.0f %7d", messages[m], groups[g]);
      for (double const t : row) std::printf("%20s %c", readable(t).c_str(), t == std::ranges::min(row) ? '*' : ' ');
      std::puts("");
    }

  // The closed form that papers give, derived from the schedule: 2(p-1) hops and 2(p-1)/p messages' worth of bytes.
  auto const ring =
      analyze::terms_of(tutti::find_schedule(algorithm_id::ring, collective::all_reduce), {.ranks = 24756});
  std::printf("\na ring of 24,756 ranks: %.0f hops, %.6f times the message sent, %.6f combined\n", ring.hops, ring.sent,
              ring.combined);
  bool ok = check(ring.hops == 2 * 24755 && std::abs(ring.sent - 2 * 24755 / 24756.0) < 1e-9, "as the papers say");
  auto const &small_most = time[0][3], &large_few = time[3][0], &large_most = time[3][3];
  ok &= check(small_most[0] > 100 * small_most[1],
              "8 bytes: a ring of 24,756 ranks is a hundred times slower than a tree");
  ok &= check(large_few[0] < large_few[1], "a gigabyte: a ring of 4 ranks is faster than a tree");
  ok &= check(large_most[2] < large_most[1], "a gigabyte: two trees share it better than one");
  return ok ? 0 : 1;
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
