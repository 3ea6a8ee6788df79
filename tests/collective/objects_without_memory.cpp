// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank lacks the memory for the objects of others.
// labels: alone processes
#include <doctest/doctest.h>

#include <cstddef>
#include <new>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "support/replaced_new.hpp"
#include "tutti/objects.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {
std::size_t max_at_once = ~std::size_t{0};  // of this process
}  // namespace

void tutti::testing::note_allocation(std::size_t bytes) {
  if (bytes > max_at_once) throw std::bad_alloc();
}

namespace {

template <class F>
void check_short_of_memory(F f) {
  CHECK_NOTHROW(run_local(3, [&](auto& comm) {
    std::string const object(3000000, 'x');
    comm.agree();  // a rank that is still in a barrier would get the error there
    if (comm.rank() == 1) max_at_once = 2000000;
    error const e = error_of([&] { f(comm, object); });
    max_at_once = ~std::size_t{0};
    std::string const what = "rank 1 has no memory for a result of ";
    if (comm.rank() == 1) expect_error(e, error_code::system, what);
    else expect_error(e, error_code::revoked, what);
  }));
}

}  // namespace

TEST_CASE("a rank without memory for objects says so to all") {
  check_short_of_memory([](auto& comm, std::string const& object) {
    std::string got = comm.rank() == 0 ? object : "";
    broadcast_object(comm, got);
    barrier(comm);
  });
  check_short_of_memory([](auto& comm, std::string const& object) {
    static_cast<void>(all_gather_object(comm, comm.rank() == 0 ? object : std::string("short")));
    barrier(comm);
  });
  check_short_of_memory([](auto& comm, std::string const& object) {
    static_cast<void>(gather_object(comm, comm.rank() == 0 ? object : std::string("short"), 1));
    barrier(comm);
  });
  check_short_of_memory([](auto& comm, std::string const& object) {
    std::vector<std::string> list;
    if (comm.rank() == 0) list = {"short", object, "short"};
    static_cast<void>(scatter_object(comm, list));
    barrier(comm);
  });
}

TEST_CASE("a rank without memory for a message that is an object says so to all") {
  check_short_of_memory([](auto& comm, std::string const& object) {
    if (comm.rank() == 0) send_object(comm, object, 1);
    if (comm.rank() == 1) static_cast<void>(recv_object<std::string>(comm, 0));
    barrier(comm);
  });
}

TEST_CASE("a rank without memory for blocks of unknown sizes says so to all") {
  check_short_of_memory([](auto& comm, std::string const& object) {
    static_cast<void>(all_gather_v(comm, comm.rank() == 0 ? object : std::string("short")));
    barrier(comm);
  });
}
