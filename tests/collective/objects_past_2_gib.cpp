// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Objects of more than 2^31 bytes in total.
// labels: processes wide optimised memory
// timeout: 300
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unistd.h>
#include <vector>

#include "support/expect.hpp"
#include "tutti/objects.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

// It is serialised as this many blocks, and takes no memory.
struct long_object {
  static constexpr std::size_t block = std::size_t{1} << 20;
  std::uint32_t blocks = 0, seed = 0;

  template <class Archive>
  void save(Archive& archive) const {
    archive(blocks, seed);
    std::vector<std::uint32_t> some(block / sizeof seed);
    for (std::uint32_t b = 0; b < blocks; ++b) {
      std::ranges::fill(some, seed + b);
      archive(some);
    }
  }
  template <class Archive>
  void load(Archive& archive) {
    archive(blocks, seed);
    std::vector<std::uint32_t> some;
    for (std::uint32_t b = 0; b < blocks; ++b) {
      archive(some);
      bool const right = some.size() * sizeof seed == block &&
                         std::ranges::all_of(some, [&](std::uint32_t x) { return x == seed + b; });
      expect(right, "block " + std::to_string(b) + " is wrong");
    }
  }
};

}  // namespace

TEST_CASE("objects of more than 2^31 bytes in all are gathered whole") {
  constexpr std::uint32_t blocks = 1100;
  auto const free_bytes =
      static_cast<std::size_t>(::sysconf(_SC_AVPHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (free_bytes < 7 * blocks * long_object::block) {
    MESSAGE("skipped: it needs 8 GB of free memory, and there are ", free_bytes);
    return;
  }
  CHECK_NOTHROW(run_local(2, [](auto& comm) {
    auto const rank = static_cast<std::uint32_t>(comm.rank());
    std::vector<long_object> const all = all_gather_object(comm, long_object{blocks + rank, 7 + 1000 * rank});
    for (std::uint32_t r = 0; r < 2; ++r)
      expect(all[r].blocks == blocks + r && all[r].seed == 7 + 1000 * r, "all_gather_object");
  }));
}
