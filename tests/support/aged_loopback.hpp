// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that have exchanged billions of messages, as in jobs that run for days.
#pragma once

#include <doctest/doctest.h>

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/tutti.hpp"

namespace tutti::testing {

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

}  // namespace tutti::testing
