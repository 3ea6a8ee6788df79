// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on device memory over MPI, through the host, and directly as with an MPI that accepts device memory: the
// memory of the test device is the host's.
// ranks: 4
// timeout: 200
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <type_traits>

#include "mpi/ranks.hpp"
#include "support/device_conformance.hpp"
#include "support/device_queues.hpp"
#include "tutti/device/staged/cuda_staged.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

class cuda_aware {
 public:
  explicit cuda_aware(char const* said) { ::setenv("TUTTI_CUDA_AWARE", said, 1); }
  cuda_aware(cuda_aware const&) = delete;
  cuda_aware& operator=(cuda_aware const&) = delete;
  ~cuda_aware() { ::unsetenv("TUTTI_CUDA_AWARE"); }
};

template <class T, class Comm, class Op>
void check(Comm& comm, Op const& op, bool hands_over) {
  device_queues const on(static_cast<unsigned>(comm.rank()) + 5);
  cuda_staged ranks(comm, on, {.slice = 2048, .slices = 3});
  expect(ranks.hands_over() == (hands_over && comm.size() > 1), "memory goes another way");
  for (std::size_t const n : {0u, 5u, 2000u})
    for (algorithm_id const by : {algorithm_id::one_shot, algorithm_id::two_shot}) {
      device_conformance<T, decltype(ranks), Comm> all(ranks, comm, n, comm.size() - 1,
                                                       {.stream = on.make_stream(), .algorithm = by});
      all.check_reductions(op);
      if (by == algorithm_id::one_shot) all.check_movement();
    }
}

template <class Transport>
std::string thrown_on(int ranks, bool hands_over) {
  return on_ranks(
      ranks, [](MPI_Comm part) { return from_mpi<Transport>(part); },
      [&](auto& comm) {
        using comm_type = std::remove_reference_t<decltype(comm)>;
        check<float, comm_type>(comm, sum{}, hands_over);
        if (ranks == 3) check<affine, comm_type>(comm, compose{}, hands_over);
      });
}

}  // namespace

TEST_CASE("by way of the host") {
  start_mpi();
  CHECK_FALSE(mpi_reports_device_memory_support());  // those of Debian do not
  for (int const ranks : {1, 2, 3, 4}) CHECK(thrown_on<mpi>(ranks, false) == "");
}
TEST_CASE("among ranks of one node, which share memory") { CHECK(thrown_on<hierarchical>(3, false) == ""); }
TEST_CASE("handed to the MPI") {
  cuda_aware const said("1");
  for (int const ranks : {1, 2, 3, 4}) CHECK(thrown_on<mpi>(ranks, true) == "");
}

TEST_CASE("what the environment says of the MPI counts, where it is one of two words") {
  {
    cuda_aware const said("0");
    CHECK_FALSE(mpi_accepts_device_memory());
  }
  cuda_aware const said("yes");
  CHECK_THROWS_WITH_AS(mpi_accepts_device_memory(), doctest::Contains("TUTTI_CUDA_AWARE=\"yes\" is not 0 or 1"), error);
}

TEST_CASE("handed to the MPI, a mismatch is found before it would hang") {
  cuda_aware const said("1");
  std::string const thrown = on_ranks(3, [](auto& comm) {
    device_queues const on;
    cuda_staged ranks(comm, on);
    device_array<device_queues, float> data(on, comm.rank() == 1 ? 50 : 40);
    broadcast(ranks, data);
  });
  INFO(thrown);
  if (world().rank() < 3) CHECK(thrown.find("rank 1 calls broadcast of 50 float, root 0") != std::string::npos);
}
