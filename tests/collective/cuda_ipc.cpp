// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives among ranks that read each other's device memory, here threads; streams run on the CPU, by themselves.
// labels: threads
// timeout: 300
#include "tutti/collective/cuda_ipc.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/device_ranks.hpp"
#include "support/expect.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::size_t small_arena = 4096;  // for messages in several parts

// f(ranks, comm) at ranks with a device each.
template <class F>
void on_devices(int ranks, std::size_t arena, F const& f) {
  run_threads(ranks, [&](auto& comm) {
    sharing_stand_in const device;
    cuda_ipc all(comm, device, arena);
    f(all, comm);
  });
}

void expect_right(int wrong, std::string const& what) { expect(wrong == 0, what + ": " + std::to_string(wrong)); }

}  // namespace

TEST_CASE("reductions have the bits of the host") {
  for (int const p : {1, 2, 3, 4, 8}) {
    CAPTURE(p);
    on_devices(p, small_arena, [&](auto& ranks, auto& comm) {
      checked_ranks const check{ranks, comm};
      for (std::size_t const n : {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(p - 1),
                                  static_cast<std::size_t>(p + 1), std::size_t{1000}, std::size_t{4099}})
        expect_right(check.template wrong_reductions<float>(n, sum{}), "float " + std::to_string(n));
      expect_right(check.template wrong_reductions<bfloat16>(1000, mean{}), "bfloat16");
      expect_right(check.template wrong_reductions<affine>(1000, compose{}), "not commutative");
      expect_right(check.template wrong_reductions<summary>(300, summarise{}), "a struct");
    });
  }
}

TEST_CASE("blocks come to where they belong") {
  for (int const p : {1, 2, 3, 4, 8}) {
    CAPTURE(p);
    on_devices(p, small_arena, [&](auto& ranks, auto& comm) {
      checked_ranks const check{ranks, comm};
      for (std::size_t const n : {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(p), std::size_t{1000}}) {
        expect_right(check.template wrong_moves<float>(n), "float " + std::to_string(n));
        expect_right(check.template wrong_moves<std::uint8_t>(n), "bytes " + std::to_string(n));
        expect_right(check.template wrong_moves<summary>(n), "structs " + std::to_string(n));
      }
    });
  }
}
