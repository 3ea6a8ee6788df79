// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// labels: alone unsanitized
#include "tutti/core/random.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstddef>
#include <set>
#include <sys/syscall.h>
#include <sys/types.h>
#include <thread>
#include <unistd.h>

namespace {

bool refuses = false;

}  // namespace

// Stands in for that of the C library, and refuses as sandboxes do.
extern "C" ssize_t getrandom(void* out, std::size_t bytes, unsigned flags) {
  if (!refuses) return ::syscall(SYS_getrandom, out, bytes, flags);
  errno = EPERM;
  return -1;
}

TEST_CASE("random numbers differ, also where a sandbox refuses to draw them") {
  constexpr int draws = 1000;
  for (bool const refused : {false, true}) {
    refuses = refused;
    std::set<std::uint64_t> here, there;
    std::jthread other([&] {
      for (int i = 0; i < draws; ++i) there.insert(tutti::detail::random_number());
    });
    for (int i = 0; i < draws; ++i) here.insert(tutti::detail::random_number());
    other.join();
    here.merge(there);
    CHECK(here.size() == 2 * draws);
  }
}
