// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective by every algorithm, and messages, while the numbers of messages and rounds pass 2^31 and 2^32, as they do
// in jobs that run for days.
// timeout: 300
#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "collective/registered.hpp"
#include "support/aged_loopback.hpp"
#include "support/expect.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("results are right while the numbers of messages pass their limits") {
  for (int const ranks : sanitized ? std::vector{3} : std::vector{2, 3})
    for (std::uint64_t const limit : {std::uint64_t{1} << 31, std::uint64_t{1} << 32})
      // All slots of a channel, at most 128, must have been used once, as they are in a long job.
      for (std::uint64_t const before : {300u, 150u}) {
        CAPTURE(ranks);
        CAPTURE(limit);
        CAPTURE(before);
        run_aged(ranks, limit - before, [&](auto& comm) {
          check_everything_registered(comm);
          for (int i = 0; i < 300; ++i) {  // packets, of both kinds of sets
            int const sum = all_reduce(comm, i);
            std::optional<int> const at_root = reduce(comm, i, i % ranks);
            expect(sum == i * ranks && at_root.value_or(sum) == sum, "a sum is wrong");
          }
          auto& transport = comm.engine().transport();
          expect(transport.published(1 - comm.rank() % 2, 0) > limit, "too few messages to reach the limit");
          expect(transport.next_round() > limit, "too few rounds of packets to reach the limit");
        });
      }
}
