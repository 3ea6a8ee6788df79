// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The key of a call tells it from similar ones.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <set>

#include "tutti/execute/plan.hpp"

using namespace tutti;
using namespace tutti::detail;

TEST_CASE("calls that differ in several members have different keys") {
  std::set<std::uint64_t> keys;
  std::size_t calls = 0;
  for (collective const what : every_collective)
    for (algorithm_id const algorithm : {algorithm_id::one_shot, algorithm_id::two_shot, algorithm_id::ring})
      for (protocol const how : {protocol::packet, protocol::staged})
        for (std::uint64_t const begin : {0u, 256u, 65536u})
          for (std::uint64_t count = begin; count < begin + 16; ++count, ++calls)
            keys.insert(key_of({.what = what, .algorithm = algorithm, .how = how, .count = count}));
  CHECK(keys.size() == calls);
}
