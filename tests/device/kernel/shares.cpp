// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How warps share jobs of uneven sizes, counted for every warp of a launch.
// labels: threads
#include "tutti/device/kernel/shares.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "support/device_stand_in.hpp"
#include "tutti/device/kernel/jobs.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

using job_sizes = std::vector<std::size_t>;

// Which warp handles each element of the jobs, one after the other; -1: none, -2: several.
std::vector<int> shared_among(int warps, job_sizes const& sizes, std::size_t grain) {
  job_sizes ends;
  std::size_t all = 0;
  for (std::size_t const size : sizes) ends.push_back(all += size);
  std::vector<int> out(all, -1);
  int const threads = warps * warp_threads;
  for (int rank = 0; rank < threads; rank += warp_threads)
    share_evenly(
        grid_member{rank, threads}, static_cast<int>(sizes.size()),
        [&](int job) { return ends[static_cast<std::size_t>(job)]; }, grain,
        [&](team const& mine, int job, std::size_t begin, std::size_t count) {
          std::size_t const first = ends[static_cast<std::size_t>(job)] - sizes[static_cast<std::size_t>(job)];
          CHECK(mine.size() == warp_threads);
          CHECK(mine.rank() == 0);
          CHECK(begin % grain == 0);
          CHECK(begin + count <= sizes[static_cast<std::size_t>(job)]);
          for (std::size_t i = first + begin; i < first + begin + count; ++i)
            out[i] = out[i] == -1 ? rank / warp_threads : -2;
        });
  return out;
}

}  // namespace

TEST_CASE("each element of uneven jobs has one warp, and warps have as many") {
  std::size_t const grain = 16;
  std::vector<job_sizes> const lists{{},
                                     {0},
                                     {5},
                                     {1000},
                                     {0, 0, 7},
                                     {1, 1, 9000},
                                     {9000, 1, 1},
                                     {100, 0, 3, 4000, 17, 0},
                                     job_sizes(64, 1),
                                     job_sizes(64, 130)};
  for (int const warps : {1, 2, 3, 7, 64, 500})
    for (job_sizes const& sizes : lists) {
      CAPTURE(warps);
      CAPTURE(sizes.size());
      std::vector<int> const who = shared_among(warps, sizes, grain);
      std::size_t const fair = who.size() / static_cast<std::size_t>(warps);
      std::vector<std::size_t> has(static_cast<std::size_t>(warps));
      for (int const warp : who) {
        REQUIRE(warp >= 0);
        ++has[static_cast<std::size_t>(warp)];
      }
      CHECK(std::ranges::max(has) <= fair + 2 * grain);
    }
}

// Equal numbers of warps for each would leave a large array to a few.
TEST_CASE("a large array among small ones gets warps in proportion to its bytes") {
  std::vector<int> const who = shared_among(40, {10, 10, 10, 30000}, 32);
  std::vector<int> large(who.begin() + 30, who.end());
  std::ranges::sort(large);
  auto const rest = std::ranges::unique(large);
  CHECK(std::distance(large.begin(), rest.begin()) >= 39);
}

TEST_CASE("a launch has threads for all packs of uneven arrays, and no more than a warp too many") {
  std::array<float, 1> from{}, to{};
  block_moves<std::uint32_t> moves{};
  auto const* const words = reinterpret_cast<std::uint32_t const*>(from.data());
  auto* const into = reinterpret_cast<std::uint32_t*>(to.data());
  moves.add(words, into, 5000);
  moves.add(words, into, 0);
  moves.add(words, into, 3);
  CHECK(moves.count == 2);
  CHECK(moves.items() == (5003 / (4 * warp_threads) + 1) * warp_threads);
}
