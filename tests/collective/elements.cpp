// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements with special requirements: alignment, size, and a rank that forks while it has shared arrays.
// labels: processes
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

template <std::size_t Alignment, std::size_t Doubles>
struct alignas(Alignment) block {
  std::array<double, Doubles> x{};
};

// Adds, and throws if operands are not aligned as their type requires.
template <class Block>
struct add {
  static constexpr bool commutative = true;
  static bool aligned(Block const& b) { return reinterpret_cast<std::uintptr_t>(&b) % alignof(Block) == 0; }

  Block operator()(Block const& a, Block const& b) const {
    Block out;
    for (std::size_t i = 0; i < out.x.size(); ++i) out.x[i] = aligned(a) && aligned(b) ? a.x[i] + b.x[i] : -1;
    return out;
  }
};

template <class Block>
void check_sums() {
  CHECK_NOTHROW(run_threads(3, [](auto& comm) {
    for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule const&) {
      if (c != collective::all_reduce) return;
      for (std::size_t const count : {1u, 5u, 300u})
        for (protocol const how : {protocol::automatic, protocol::staged}) {
          std::vector<Block> data(count);
          for (Block& b : data) b.x.fill(comm.rank() + 1);
          all_reduce(comm, data, add<Block>{}, {.algorithm = id, .protocol = how});
          for (Block const& b : data)
            for (double const x : b.x)
              if (x != 6) throw std::runtime_error("wrong sum by " + std::string(name(id)));
        }
    });
  }));
}

}  // namespace

TEST_CASE("elements lie where their alignment asks") {
  check_sums<block<16, 2>>();
  check_sums<block<32, 4>>();
  check_sums<block<64, 8>>();
}

TEST_CASE("elements may be as large as a slot") {
  check_sums<block<8, 2048>>();  // 16 KiB
  check_sums<block<8, 1500>>();
}

TEST_CASE("a process that a rank forks does not disturb the rank's memory when it ends") {
  CHECK_NOTHROW(run_local(2, [](auto& comm) {
    pid_t child = -1;
    {
      auto mine = comm.template allocate<int>(10'000);
      for (int& x : mine) x = 7;
      child = ::fork();
      if (child != 0) {
        int status = 0;
        ::waitpid(child, &status, 0);
        for (int const x : mine)
          if (x != 7) throw std::runtime_error("the array was changed");
        all_reduce(comm, mine);
        if (mine[0] != 14) throw std::runtime_error("wrong sum");
      }
    }
    if (child == 0) ::_exit(0);
  }));
}
