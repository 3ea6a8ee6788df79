// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A process that a rank forks ends without finalizing the MPI of its parent.
// ranks: 2
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

#include "mpi/ranks.hpp"
#include "support/expect.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("a forked child may exit") {
  CHECK(on_ranks(2, [](auto& comm) {
          barrier(comm);
          if (comm.rank() == 0) {
            pid_t const child = ::fork();
            if (child == 0) std::exit(error_of([&] { barrier(comm); }).code() == error_code::bad_argument ? 0 : 1);
            int status = -1;
            auto const until = deadline::after(std::chrono::seconds(20));
            while (::waitpid(child, &status, WNOHANG) == 0 && !until.passed())
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
            if (until.passed()) ::kill(child, SIGKILL);
            expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child is refused a call, and ends");
          }
          std::vector<int> data(1000, 1);
          all_reduce(comm, data);
          expect(data == std::vector<int>(1000, 2), "the ranks go on");
        }) == "");
}
