// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that the system cannot provide: the program gets std::bad_alloc from allocate, not a signal when it touches it.
// labels: processes alone
#include <doctest/doctest.h>

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

std::atomic<int> failure = 0;                   // the errno of every attempt to populate memory; 0: none fails
std::atomic<std::uintptr_t> pages_of = 0;       // if not 0, the size of the system's pages
std::atomic<int> populated = 0, misplaced = 0;  // attempts at the start of such a page, and elsewhere

}  // namespace

extern "C" int madvise(void* at, std::size_t bytes, int advice) noexcept {
  constexpr int populate_write = 23;
  if (advice == populate_write && pages_of != 0)
    ++(reinterpret_cast<std::uintptr_t>(at) % pages_of == 0 ? populated : misplaced);
  if (advice != populate_write || failure == 0) return static_cast<int>(::syscall(SYS_madvise, at, bytes, advice));
  errno = failure;
  return -1;
}

extern "C" long sysconf(int name) noexcept {
  static auto* const original = reinterpret_cast<long (*)(int)>(::dlsym(RTLD_NEXT, "sysconf"));
  return name == _SC_PAGESIZE && pages_of != 0 ? static_cast<long>(pages_of) : original(name);
}

TEST_CASE("allocate throws bad_alloc where there is no memory, and the space stays free") {
  run_local(2, [](auto& comm) {
    barrier(comm);
    auto const asks_for = [&](std::size_t count) { return comm.template allocate<char>(count).data(); };
    char* const first = asks_for(100000);
    for (int const reason : {ENOMEM, EFAULT}) {
      failure = reason;
      bool refused = false;
      try {
        asks_for(100000);
      } catch (std::bad_alloc const&) {
        refused = true;
      }
      failure = 0;
      expect(refused, "memory was given that does not exist");
    }
    failure = EINVAL;  // an old system does not know how to populate
    expect(asks_for(100000) == first, "the space was lost");
    failure = 0;
  });
}

TEST_CASE("allocate populates memory where the system's pages are larger than those of the heap") {
  run_local(2, [](auto& comm) {
    barrier(comm);
    pages_of = 65536;
    populated = misplaced = 0;
    std::vector<decltype(comm.template allocate<char>(1))> arrays;
    while (arrays.size() < 5) arrays.push_back(comm.template allocate<char>(4096));
    pages_of = 0;
    expect(populated == 5 && misplaced == 0, "the system rejects the address");
  });
}

TEST_CASE("allocate says the same of more bytes than there are addresses as of too many") {
  run_local(2, [](auto& comm) {
    auto const said_of = [&](std::size_t count) -> std::string {
      try {
        return comm.template allocate<int>(count).data() == nullptr ? "null" : "accepted";
      } catch (std::bad_alloc const& e) {
        return e.what();
      }
    };
    std::string const said = said_of(std::size_t{1} << 50);
    expect(said.find("std::bad_alloc") == 0, said);
    expect(said_of(std::numeric_limits<std::size_t>::max()) == said, said_of(std::numeric_limits<std::size_t>::max()));
  });
}
