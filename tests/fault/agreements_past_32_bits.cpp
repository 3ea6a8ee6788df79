// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// agree and shrink while the number of agreements passes 2^31 and 2^32.
// labels: threads
#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

// As if all ranks had agreed as many times.
template <class Comm>
void skip_agreements(Comm& comm, std::uint64_t count) {
  auto& engine = comm.engine();
  engine.agreements = count;
  if (comm.rank() == 0) engine.transport().memory().header().decided = count << 32;
  barrier(comm);
}

template <class Comm>
void agree_past(Comm& comm, std::uint64_t limit) {
  skip_agreements(comm, limit - 5);
  for (int i = 0; i < 10; ++i) {
    agreement const got = comm.agree(16 * i + (comm.rank() == i % 3 ? 3 : 7));
    expect(got.flags == 16 * i + 3 && got.gone.empty(), "ranks agree on something else");
  }
  expect(comm.engine().agreements == limit + 5, "the number of agreements is wrong");
}

template <class Comm>
void shrink_past(Comm& comm, std::uint64_t limit) {
  skip_agreements(comm, limit - 2);
  static_cast<void>(comm.agree());  // each rank has voted, as it has after so many
  if (comm.rank() == 1) {
    Comm const closed = std::move(comm);
    return;
  }
  Comm rest = comm.shrink();
  expect(rest.survivors() == std::vector{0, 2}, "the survivors are wrong");
  expect(all_reduce(rest, 1) == 2, "a sum of the survivors is wrong");
}

}  // namespace

TEST_CASE("ranks agree and shrink while the number of agreements passes its limits") {
  for (std::uint64_t const limit : {std::uint64_t{1} << 31, std::uint64_t{1} << 32, std::uint64_t{1} << 33}) {
    CAPTURE(limit);
    CHECK_NOTHROW(run_threads(3, [&](auto& comm) { agree_past(comm, limit); }));
    CHECK_NOTHROW(run_threads(3, [&](auto& comm) { shrink_past(comm, limit); }));
  }
}
