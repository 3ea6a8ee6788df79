// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective by every algorithm, and messages, while the numbers of messages and rounds pass 2^31 and 2^32, as they do
// in jobs that run for days.
// timeout: 300
#include <doctest/doctest.h>

#include <barrier>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collective/registered.hpp"
#include "support/expect.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

// Loopback whose ranks have exchanged `count` messages of each kind.
class aged_loopback : public loopback {
 public:
  aged_loopback(std::shared_ptr<hub> shared, int rank, std::uint64_t count, std::barrier<>& all)
      : loopback(std::move(shared), rank) {
    skip(count);
    all.arrive_and_wait();
  }
};

template <class F>
void run_aged(int ranks, std::uint64_t count, F&& f) {
  auto const shared = std::make_shared<loopback::hub>(ranks, detail::all_tracks);
  std::barrier all(ranks);
  std::vector<std::string> wrong(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        communicator<aged_loopback> comm(std::make_unique<aged_loopback>(shared, r, count, all));
        f(comm);
      } catch (std::exception const& e) {
        wrong[static_cast<std::size_t>(r)] = e.what();
      }
    });
  threads.clear();
  for (std::string const& text : wrong) CHECK(text == "");
}

}  // namespace

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
