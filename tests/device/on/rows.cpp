// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Epilogues on rows by every path that `on` takes, here among threads; streams run on the CPU on their own.
// labels: threads alike
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <type_traits>

#include "support/device_rows.hpp"
#include "support/expect.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/device/on/cuda_ranks.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("rows are finished by every path") {
  for (device_path const path : {device_path::ipc, device_path::staged, device_path::two_level}) {
    CAPTURE(std::string(name(path)));
    run_threads(4, [=](auto& comm) {
      sharing_stand_in const device(comm.rank() + 1);
      int const node = path == device_path::two_level ? comm.rank() / 2 : 0;
      auto ranks = on(comm, device, {.path = path, .node = node, .arena = 4096, .slices = {.slice = 2048}});
      device_rows<float, decltype(ranks), std::remove_reference_t<decltype(comm)>> rows(ranks, comm, 1000, {});
      rows.check_norms(algorithm_id::automatic, 7, 100);
      rows.check_norms(algorithm_id::automatic, 3, 33, 1);
    });
  }
}

TEST_CASE("ranks whose rows have other lengths make different calls") {
  for (auto const& e : errors_of(2, [](auto& comm) {
         sharing_stand_in const device(comm.rank() + 1);
         auto ranks = on(comm, device, {.arena = 4096});
         detail::device_array<sharing_stand_in, float> const data(device, 60);
         all_reduce(ranks, data, by_rows(sum{}, comm.rank() == 0 ? 10 : 20, softmax{}),
                    {.timeout = std::chrono::seconds(20)});
         ranks.work().wait();
         barrier(comm);
       })) {
    CHECK(e.code() == error_code::mismatch);
    CHECK(e.happened().find("hash of their sizes: 10)") != std::string::npos);
    CHECK(e.happened().find("hash of their sizes: 20)") != std::string::npos);
  }
}

TEST_CASE("results of rows that the device cannot store are refused on every path") {
  for (device_path const path : {device_path::ipc, device_path::staged, device_path::two_level}) {
    CAPTURE(std::string(name(path)));
    run_threads(4, [=](auto& comm) {
      sharing_stand_in device(comm.rank() + 1);
      int const node = path == device_path::two_level ? comm.rank() / 2 : 0;
      auto ranks = on(comm, device, {.path = path, .node = node, .arena = 4096, .slices = {.slice = 2048}});
      detail::device_array<sharing_stand_in, float> const in(device, 60);
      detail::device_array<sharing_stand_in, half> const out(device, 60);
      device.forbidden = out.data();
      expect_error(error_of([&] { all_reduce(ranks, in, out, by_rows(sum{}, 20, rms_norm{})); }),
                   error_code::bad_argument, "the output of all_reduce cannot be accessed by 1 stand-ins");
    });
  }
}
