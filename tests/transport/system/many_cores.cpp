// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cores that a thread may use on a machine with more of them than a cpu_set_t has bits.
// labels: alone
#include <doctest/doctest.h>

#include <sched.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "tutti/transport/system/caches.hpp"

namespace {

std::size_t system_bytes = 0;  // the size of a set of all cores

}  // namespace

// Allows the last core.
extern "C" int sched_getaffinity(pid_t, std::size_t bytes, cpu_set_t* set) noexcept {
  if (bytes < system_bytes) {
    errno = EINVAL;
    return -1;
  }
  std::memset(set, 0, bytes);
  CPU_SET_S(8 * system_bytes - 1, bytes, set);
  return 0;
}

TEST_CASE("a core counts on machines of any size") {
  for (std::size_t const bytes : {8u, 128u, 256u, 1024u}) {
    CAPTURE(bytes);
    system_bytes = bytes;
    cpu_set_t const usable = tutti::detail::usable_cores();
    CHECK(CPU_COUNT(&usable) == 1);
    CHECK(CPU_ISSET((8 * bytes - 1) % CPU_SETSIZE, &usable));
  }
}

TEST_CASE("a system that says nothing allows no core") {
  system_bytes = static_cast<std::size_t>(-1) / 16;
  cpu_set_t const usable = tutti::detail::usable_cores();
  CHECK(CPU_COUNT(&usable) == 0);
}
