// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code of README.md and docs/start.md, and that of docs/mpi-and-nodes.md that needs no MPI.
// labels: threads
#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

std::vector<float> backward() { return std::vector<float>(1000, 1.0f); }

tutti::communicator<tutti::shm>& world() {  // all ranks make the first call together
  static auto comm = tutti::init();         // closed when the program ends
  return comm;
}

}  // namespace

TEST_CASE("the program of the README") {
  std::vector<float> const in(100, 1.0f);
  std::vector<float> out(100);

  auto comm = tutti::init();  // under tutti-run, mpirun, srun or torchrun; or alone
  std::vector<float> gradient = backward();

  tutti::all_reduce(comm, gradient);               // in place, sum, algorithm chosen by tutti
  tutti::all_reduce(comm, in, out, tutti::max{});  // any operation on any trivially copyable type
  tutti::all_reduce<tutti::ring>(comm, gradient);  // algorithm fixed at compile time
  tutti::all_reduce(comm, in, out, tutti::min{}, {.timeout = std::chrono::seconds(5)});

  tutti::work sum = tutti::all_reduce(tutti::async(comm), gradient);  // started; compute, then wait
  sum.wait();
  CHECK(out == in);
}

TEST_CASE("communicators that outlive a scope") {
  std::optional<tutti::communicator<tutti::shm>> comm;
  for (int again = 0; again < 2; ++again) {
    comm = tutti::init();
    CHECK(tutti::all_reduce(*comm, 3) == 3 * comm->size());
    comm.reset();
  }
  for (int again = 0; again < 2; ++again) CHECK(tutti::all_reduce(world(), 3) == 3 * world().size());
}

TEST_CASE("ranks that are threads") {
  tutti::run_threads(4, [](auto& comm) {
    std::vector<double> values(1000, comm.rank());
    tutti::all_reduce(comm, values, tutti::max{});
    comm.main_only([&] { std::printf("the greatest value is %g\n", values[0]); });
  });
}
