// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much memory calls keep.
#include "tutti/device/model/growth.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "support/device_stand_in.hpp"
#include "tutti/core/error.hpp"
#include "tutti/device/channel/channels.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

struct measured_stand_in : device_stand_in {
  std::size_t* bytes = nullptr;

  void* allocate(std::size_t more) const {
    *bytes += more;
    return device_stand_in::allocate(more);
  }
};

}  // namespace

TEST_CASE("the first memory exceeds what a call needs by an eighth at most") {
  std::size_t wrong = 0;
  for (std::size_t needed = 1; needed < (std::size_t{1} << 40); needed += needed / 7 + 1) {
    std::size_t const size = grown_size(needed, 0);
    wrong += size < needed || size > needed + needed / 8 + 256;
  }
  CHECK(wrong == 0);
  CHECK(grown_size(0, 0) == 0);
  CHECK(grown_size((std::size_t{1} << 30) + 1, 0) == (std::size_t{9} << 27));
}

TEST_CASE("memory that grows by and by takes less than four times what the largest call needs") {
  for (double const factor : {1.0001, 1.01, 1.3, 1.99, 2.01, 5.0}) {
    CAPTURE(factor);
    std::size_t had = 0, all = 0, needed = 1 << 20;
    int growths = 0;
    for (; needed < (std::size_t{1} << 34); needed = static_cast<std::size_t>(static_cast<double>(needed) * factor)) {
      if (needed <= had) continue;
      had = grown_size(needed, had);
      all += had;
      CHECK(all < 4 * needed);
      ++growths;
    }
    CHECK(growths <= 15);
  }
}

TEST_CASE("memory that another rank cannot have is not kept") {
  std::size_t bytes = 0;
  measured_stand_in const on{{}, &bytes};
  growing_memory memory(on);
  CHECK(memory.get(0) == nullptr);
  std::byte* const first = memory.get(256);
  auto const fails_elsewhere = [](auto const& allocate) {
    allocate();
    throw error({.code = error_code::system, .what = "rank 1 has no memory"});
  };
  CHECK_THROWS_AS(memory.get(1000, fails_elsewhere), error);
  CHECK(memory.get(256) == first);
  bytes = 0;
  CHECK(memory.get(1000) != first);
  CHECK(bytes == grown_size(1000, 256));
}

TEST_CASE("channels keep little more scratch memory than a call needs") {
  std::size_t bytes = 0;
  measured_stand_in const on{{}, &bytes};
  device_channels channels(on, 2);
  bytes = 0;
  std::size_t const needed = (std::size_t{1} << 24) + 1;
  std::byte* const first = channels.scratch(0, needed);
  CHECK(bytes <= needed + needed / 8);
  CHECK(channels.scratch(0, needed / 2) == first);
  CHECK(bytes <= needed + needed / 8);
}
