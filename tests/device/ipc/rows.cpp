// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Epilogues on rows among ranks with a device each, whose kernels wait for each other, and ranks that share one. Ranks are threads.
// labels: threads
#include <doctest/doctest.h>

#include <cstddef>
#include <string>

#include "support/device_rows.hpp"
#include "support/expect.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/device/ipc/cuda_ipc.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

template <class T>
void check_rows(int ranks, bool own_devices) {
  run_threads(ranks, [=](auto& comm) {
    sharing_stand_in const device(own_devices ? comm.rank() + 1 : 0);
    cuda_ipc small(comm, device, 4096), large(comm, device);
    device_rows<T, decltype(small), std::remove_reference_t<decltype(comm)>> few(small, comm, 1000, {});
    device_rows<T, decltype(large), std::remove_reference_t<decltype(comm)>> many(large, comm, 40000, {});
    for (algorithm_id const by : {algorithm_id::one_shot, algorithm_id::two_shot}) {
      for (std::size_t const rows : {0u, 1u, 7u}) few.check_all(by, rows, 64);
      few.check_all(by, 5, 33, 1);
      many.check_norms(by, 20, 100);
      many.check_norms(by, 1, length_of_long_row<T>);
    }
  });
}

}  // namespace

TEST_CASE_TEMPLATE("rows are normalised, quantised and soft-maxed by ranks with a device each", T, float, bfloat16) {
  for (int const p : {2, 3}) check_rows<T>(p, true);
}

TEST_CASE_TEMPLATE("rows are normalised, quantised and soft-maxed by ranks that share a device", T, half) {
  for (int const p : {1, 3}) check_rows<T>(p, false);
}
