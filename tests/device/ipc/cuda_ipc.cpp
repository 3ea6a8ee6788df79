// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives among ranks that read each other's device memory, here threads; streams run on the CPU on their own.
// labels: threads
// timeout: 300
#include "tutti/device/ipc/cuda_ipc.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/device_conformance.hpp"
#include "support/expect.hpp"
#include "support/sanitized.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

constexpr std::size_t small_arena = 4096;  // for messages in several parts

// f(ranks, comm) on ranks with a device each.
template <class F>
void on_devices(int ranks, std::size_t arena, F const& f) {
  run_threads(ranks, [&](auto& comm) {
    sharing_stand_in const device;
    cuda_ipc all(comm, device, arena);
    f(all, comm);
  });
}

}  // namespace

TEST_CASE("reductions have the bits of the host") {
  for (int const p : ranks_to_test({1, 2, 3, 4, 8})) {
    CAPTURE(p);
    on_devices(p, small_arena, [&](auto& ranks, auto& comm) {
      for (std::size_t const n : {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(p - 1),
                                  static_cast<std::size_t>(p + 1), std::size_t{1000}, std::size_t{4099}})
        check_reductions_of<float>(ranks, comm, n, sum{});
      check_reductions_of<bfloat16>(ranks, comm, 1000, mean{});
      if constexpr (!sanitized) {
        check_reductions_of<affine>(ranks, comm, 1000, compose{});
        check_reductions_of<summary>(ranks, comm, 300, summarise{});
      }
    });
  }
}

TEST_CASE("blocks come to where they belong") {
  for (int const p : ranks_to_test({1, 2, 3, 4, 8})) {
    CAPTURE(p);
    on_devices(p, small_arena, [&](auto& ranks, auto& comm) {
      for (std::size_t const n : {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(p), std::size_t{1000}}) {
        check_movement_of<std::uint8_t>(ranks, comm, n);
        check_movement_of<summary>(ranks, comm, n);
      }
    });
  }
}
