// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Epilogues on rows among ranks with a device each, whose kernels wait for each other, and ranks that share one. Ranks are threads.
// labels: threads
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

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

TEST_CASE("rows whose sums need more memory are refused in a capture") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const device;
    cuda_ipc ranks(comm, device, 4096);
    detail::device_array<sharing_stand_in, float> const in(device, 64);
    detail::device_array<sharing_stand_in, half> const out(device, 64);
    std::vector<float> const ones(64, 1.0f);
    device.copy({}, in.data(), ones.data(), 64 * sizeof(float));
    device.wait({}, detail::deadline::after(std::chrono::seconds{10}));
    stand_in_stream stream;
    auto const normalise = [&] { all_reduce(ranks, in, out, by_rows(sum{}, 32, rms_norm{0}), {.stream = &stream}); };
    stream.begin_capture();
    expect_error(error_of([&] { normalise(); }), error_code::bad_argument,
                 "the first call with rows of this size is being captured into a graph, and needs memory");
    expect(stream.end_capture().empty(), "nothing was captured");
    normalise();
    stream.begin_capture();
    normalise();
    auto const graph = stream.end_capture();
    stand_in_stream::launch(graph);
    ranks.work(&stream).wait();
    std::vector<half> got(64);
    device.copy({}, got.data(), out.data(), 64 * sizeof(half));
    device.wait({}, detail::deadline::after(std::chrono::seconds{10}));
    for (half const x : got) expect(x == 1.0f, "the norm of equal values");
  });
}
