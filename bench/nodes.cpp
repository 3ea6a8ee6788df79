// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce over several nodes: with two levels, and with algorithms that ignore nodes, over the same MPI in the same run.
// tests/mpi/two_nodes.sh simulates two nodes on one machine; TUTTI_LINK sets the bandwidth and delay of their link.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include "tutti/mpi.hpp"

namespace {

using namespace tutti;
using namespace tutti::detail;
using clock = std::chrono::steady_clock;
using nodes_communicator = communicator<hierarchical>;

struct contestant {
  char const* name;
  void (*all_reduce)(nodes_communicator&, std::vector<float>&);
};
template <class Algorithm>
void run(nodes_communicator& comm, std::vector<float>& data) {
  all_reduce<Algorithm>(comm, data, max{});
}
// With two levels: tutti's choice for each level, then MPI's own all_reduce or one of tutti's across nodes. With one level: MPI's own and
// tutti's algorithms. Finally, tutti's choice.
constexpr contestant contestants[] = {
    {"two_level", run<two_level<>>},
    {"<.,native>", run<two_level<automatic, native>>},
    {"<.,ring>", run<two_level<automatic, ring>>},
    {"<.,two_shot>", run<two_level<automatic, two_shot>>},
    {"<.,halving>", run<two_level<automatic, recursive_halving>>},
    {"native", run<native>},
    {"ring", run<ring>},
    {"one_shot", run<one_shot>},
    {"two_shot", run<two_shot>},
    {"halving", run<recursive_halving>},
    {"doubling", run<recursive_doubling>},
    {"automatic", run<automatic>},
};

// The time of one call in microseconds, at the slowest rank.
double time_of(nodes_communicator& comm, std::vector<float>& data, contestant const& c) {
  barrier(comm);
  auto const began = clock::now();
  c.all_reduce(comm, data);
  double elapsed = std::chrono::duration<double, std::micro>(clock::now() - began).count();
  all_reduce(comm, std::span(&elapsed, 1), max{});
  return elapsed;
}

double median(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

int main() {
  auto comm = init<hierarchical>();
  if (comm.is_main()) {
    fmt::print(
        "all_reduce of float with max, {}, median of the slowest rank in us; in brackets its ratio to two_level\n\n",
        comm.engine().transport().nodes().text());
    fmt::print("{:>10}", "bytes");
    for (contestant const& c : contestants) fmt::print(" {:>18}", c.name);
    fmt::print("\n");
  }
  for (std::size_t const bytes : {8u, 4096u, 65536u, 262144u, 1u << 20, 8u << 20}) {
    std::vector<float> data(bytes / sizeof(float));
    std::vector<std::vector<double>> times(std::size(contestants));
    std::size_t const rounds = bytes < 1u << 20 ? 50 : 7;
    for (std::size_t round = 0; round < rounds; ++round)
      for (std::size_t i = 0; i < std::size(contestants); ++i) {
        double const time = time_of(comm, data, contestants[i]);
        if (round > 0) times[i].push_back(time);
      }
    if (!comm.is_main()) continue;
    fmt::print("{:>10}", bytes);
    for (auto const& t : times) fmt::print(" {:>10.1f} ({:>5.2f})", median(t), median(t) / median(times[0]));
    fmt::print("\n");
  }
}
