// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on device memory through the host, among ranks that are processes.
// labels: processes
// timeout: 120
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <string>
#include <unistd.h>

#include "support/device_conformance.hpp"
#include "support/device_queues.hpp"
#include "tutti/device/staged/cuda_staged.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

TEST_CASE("processes combine what is on their devices") {
  for (int const p : {2, 4})
    run_local(p, [&](auto& comm) {
      device_queues const on(static_cast<unsigned>(comm.rank()));
      cuda_staged ranks(comm, on, {.slice = 4096});
      for (std::size_t const n : {0u, 1u, 4099u})
        for (algorithm_id const by : {algorithm_id::one_shot, algorithm_id::two_shot}) {
          device_conformance<float, decltype(ranks), std::remove_reference_t<decltype(comm)>> all(
              ranks, comm, n, 1, {.stream = on.make_stream(), .algorithm = by});
          all.check_reductions(sum{});
          if (by == algorithm_id::one_shot) all.check_movement();
        }
    });
}

TEST_CASE("a process that is killed in the middle is named by the others") {
  std::string thrown;
  try {
    run_local(3, [](auto& comm) {
      device_queues const on;
      cuda_staged ranks(comm, on, {.slice = 4096});
      detail::device_array<device_queues, float> data(on, 100'000);
      all_reduce(ranks, data);
      auto const ending = error_of([&] {
        for (int call = 0; call < 10; ++call) {
          if (comm.rank() == 1 && call == 3) ::kill(::getpid(), SIGKILL);
          all_reduce(ranks, data, sum{}, {.timeout = 20s});
        }
      });
      expect_error(ending, error_code::rank_lost, "rank 1 (process ");
      expect_error(error_of([&] { all_reduce(ranks, data); }), error_code::rank_lost, "rank 1");
    });
  } catch (error const& e) {
    thrown = e.what();
  }
  INFO(thrown);
  CHECK(thrown.find("rank 1") != std::string::npos);
  CHECK(thrown.find("expected") == std::string::npos);
}
