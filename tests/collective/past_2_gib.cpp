// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages of more than 2^31 bytes and elements.
// labels: processes wide optimised memory
// timeout: 300
#include <doctest/doctest.h>

#include <cstdint>
#include <stdexcept>
#include <unistd.h>
#include <vector>

#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;

TEST_CASE("counts past 2^31 are reduced and sent whole") {
  std::size_t const count = (std::size_t{1} << 31) + 12'345;
  auto const free_bytes =
      static_cast<std::size_t>(::sysconf(_SC_AVPHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (free_bytes < 3 * count) {
    MESSAGE("skipped: it needs 6.5 GB of free memory, and there are ", free_bytes);
    return;
  }
  CHECK_NOTHROW(run_local(2, [&](auto& comm) {
    std::vector<std::uint8_t> data(count);
    auto const value = [](std::size_t i) { return static_cast<std::uint8_t>(i ^ (i >> 13) ^ (i >> 29)); };
    for (std::size_t i = 0; i < count; ++i) data[i] = value(i);
    all_reduce(comm, data);
    for (std::size_t i = 0; i < count; ++i)
      if (data[i] != static_cast<std::uint8_t>(2 * value(i)))
        throw std::runtime_error("wrong sum of element " + std::to_string(i));
    auto const check_copy = [&](auto&& copy) {
      if (comm.rank() == 1) data.assign(count, 0);
      copy();
      for (std::size_t i = 0; i < count; i += 4093)
        if (data[i] != static_cast<std::uint8_t>(2 * value(i)))
          throw std::runtime_error("wrong copy of element " + std::to_string(i));
      if (data.back() != static_cast<std::uint8_t>(2 * value(count - 1)))
        throw std::runtime_error("wrong copy of the last element");
    };
    check_copy([&] { broadcast(comm, data, 0); });
    check_copy([&] {
      if (comm.rank() == 0) send(comm, data, 1);
      else recv(comm, data, 0);
    });
    check_copy([&] {
      if (comm.rank() == 0) isend(comm, data, 1).wait();
      else recv(comm, data, 0);
    });
  }));
}
