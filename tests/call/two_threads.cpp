// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two threads of a rank make calls on one communicator at once: the second is refused, and the first ends well.
// labels: processes
#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("a call of a second thread is refused while the first is in one") {
  run_local(2, [](auto& comm) {
    std::vector<int> one(1, 1), other(5, 1);
    barrier(comm);
    if (comm.rank() == 1) {
      recv(comm, other, 0);  // once the second thread of rank 0 has been refused
      all_reduce(comm, one);
      all_reduce(comm, other);
      return;
    }
    std::thread first([&] { all_reduce(comm, one); });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    error const e = error_of([&] { all_reduce(comm, other); });
    expect_error(e, error_code::bad_argument, "rank 0 is still in call #2, all_reduce of 1 int with sum");
    expect_error(e, error_code::bad_argument, "which another thread made");
    send(comm, other, 1);
    first.join();
    expect(one[0] == 2, "the sum of the first thread is wrong");
    all_reduce(comm, other);
    expect(other[0] == 2, "the sum after it is wrong");
  });
}
