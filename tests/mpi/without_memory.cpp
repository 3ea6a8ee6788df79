// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank runs out of memory for a message over MPI: it gets the exception, and all others are told which rank that is.
// ranks: 3
// labels: alone
#include "message/without_memory.hpp"

#include <doctest/doctest.h>

#include <cstddef>

#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("a rank without any memory says so to all over MPI") {
  CHECK(on_ranks(world().size(), [](auto& comm) {
          std::vector<int> out(1), in(1);
          send_recv(comm, out, (comm.rank() + 1) % comm.size(), in, (comm.rank() + comm.size() - 1) % comm.size());
          send_what_cannot_be_kept(comm, 2000, 0, "out of memory",
                                   [](auto& on, auto& to) { recv(on, to, 0, 2, patient); });
          meet();  // none leaves before all have been told, because that is an error too
        }) == "");
}

TEST_CASE("a rank that cannot allocate a byte opens no channel, tells all, and closes without them") {
  CHECK(on_ranks(world().size(), [](auto& comm) {
          auto group = comm.split(0);
          if (comm.rank() == 1) {
            auto& ranks = group->engine().transport();
            max_at_once = 0;
            std::byte const* const place = ranks.claim(2, 0, 8, 8);
            bool const told = ranks.notices().faulty();
            group.reset();
            max_at_once = unlimited;
            expect(place == nullptr && told, "a channel without memory");
          } else {
            error const e = error_of([&] { barrier(*group, patient); });
            expect_error(e, error_code::system, "out of memory");
            expect(e.peer() == 1, "the rank without memory is not named");
          }
          meet();
        }) == "");
}

TEST_CASE("a rank that cannot allocate a byte closes its nodes after a fault") {
  CHECK(on_ranks(world().size(), on_nodes_of(2), [](auto& comm) {
          for (int const ranks : {comm.size(), 2}) {  // on two nodes, and on one
            auto group = comm.split(comm.rank() < ranks ? 0 : no_color);
            if (!group) continue;
            if (group->rank() == 1) group->revoke("the text of this fault needs memory");
            expect_error(error_of([&] { barrier(*group, patient); }), error_code::revoked, "needs memory");
            if (group->rank() == 1) max_at_once = 0;
            group.reset();
            max_at_once = unlimited;
          }
          meet();
        }) == "");
}
