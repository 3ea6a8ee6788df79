// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives over several nodes: with two levels, and with algorithms that ignore nodes, over the same MPI in the same run;
// and the messages that they send from node to node. The arguments are names of collectives; without any, all_reduce. A number
// before them limits the calls for each size.
// tests/mpi/two_nodes.sh simulates two nodes on one machine; TUTTI_LINK sets the bandwidth and delay of their link.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "median.hpp"
#include "tutti/mpi.hpp"

namespace {

using namespace tutti;
using namespace tutti::detail;
using clock = std::chrono::steady_clock;
using nodes_communicator = communicator<hierarchical>;

// Counts the messages of this rank to other nodes while it is set, without those of the MPI's own collectives, which
// `automatic` may choose.
struct message_counter {
  node_map const* nodes = nullptr;
  MPI_Group world = MPI_GROUP_NULL;
  std::int64_t messages = 0;

  void count(MPI_Comm comm, int to) {
    if (nodes == nullptr) return;
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Comm_group(comm, &group);
    int rank = 0, self = 0;
    MPI_Group_translate_ranks(group, 1, &to, world, &rank);
    MPI_Group_free(&group);
    MPI_Comm_rank(MPI_COMM_WORLD, &self);
    if (nodes->node_of(rank) != nodes->node_of(self)) ++messages;
  }
} counter;

}  // namespace

extern "C" {
int MPI_Isend(void const* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  counter.count(comm, to);
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}
int MPI_Issend(void const* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  counter.count(comm, to);
  return PMPI_Issend(data, count, type, to, tag, comm, request);
}
}

namespace {

struct arrays {
  std::vector<float> in, out;
  std::vector<std::size_t> counts;  // of the blocks of a _v form, whose mean is `count`
  std::size_t mine, count;

  arrays(nodes_communicator const& comm, std::size_t n) : count(n) {
    auto const ranks = static_cast<std::size_t>(comm.size()), rank = static_cast<std::size_t>(comm.rank());
    for (std::size_t q = 0; q < ranks; ++q) counts.push_back(q % 2 == 0 ? n / 2 : n + n - n / 2);
    if (ranks % 2 == 1) counts.back() = n;
    mine = counts[rank];
    in.resize(n * ranks);
    out.resize(n * ranks);
  }
};

struct contestant {
  std::string_view name;
  void (*call)(nodes_communicator&, arrays&);
};

template <collective C, bool Ragged, class Algorithm>
void run(nodes_communicator& comm, arrays& a) {
  if constexpr (C == collective::all_reduce) all_reduce<Algorithm>(comm, std::span(a.in).first(a.count), max{});
  else if constexpr (C == collective::all_to_all) all_to_all<Algorithm>(comm, a.in, a.out);
  else if constexpr (C == collective::scan)
    scan<Algorithm>(comm, std::span(a.in).first(a.count), std::span(a.out).first(a.count), max{});
  else if constexpr (C == collective::exclusive_scan)
    exclusive_scan<Algorithm>(comm, std::span(a.in).first(a.count), std::span(a.out).first(a.count), max{});
  else if constexpr (C == collective::all_gather && Ragged)
    all_gather_v<Algorithm>(comm, std::span(a.in).first(a.mine), a.out, a.counts);
  else reduce_scatter_v<Algorithm>(comm, a.in, std::span(a.out).first(a.mine), a.counts, max{});
}

template <collective C, bool Ragged, class... Algorithms>
std::vector<contestant> among(list<Algorithms...>) {
  return {{Algorithms::name, run<C, Ragged, Algorithms>}...};
}

// With two levels: tutti's choice for each level. With one level: MPI's own and tutti's algorithms. Finally, tutti's choice.
std::vector<contestant> contestants(std::string_view what) {
  using enum collective;
  if (what == "all_reduce") {
    auto out = among<all_reduce, false>(
        list<two_level<>, native, ring, one_shot, two_shot, recursive_halving, recursive_doubling, automatic>());
    // With MPI's own all_reduce or one of tutti's across nodes.
    out.push_back({"<.,native>", run<all_reduce, false, two_level<automatic, native>>});
    out.push_back({"<.,ring>", run<all_reduce, false, two_level<automatic, ring>>});
    out.push_back({"<.,two_shot>", run<all_reduce, false, two_level<automatic, two_shot>>});
    out.push_back({"<.,halving>", run<all_reduce, false, two_level<automatic, recursive_halving>>});
    return out;
  }
  if (what == "all_to_all")
    return among<all_to_all, false>(list<two_level<>, native, one_shot, pairwise, bruck, automatic>());
  if (what == "scan")
    return among<scan, false>(list<two_level<>, native, one_shot, ring, recursive_doubling, automatic>());
  if (what == "exclusive_scan")
    return among<exclusive_scan, false>(list<two_level<>, native, one_shot, ring, recursive_doubling, automatic>());
  if (what == "all_gather_v")
    return among<all_gather, true>(list<two_level<>, native, one_shot, ring, pairwise, automatic>());
  if (what == "reduce_scatter_v")
    return among<reduce_scatter, true>(list<two_level<>, native, one_shot, pairwise, automatic>());
  return {};
}

// The time of one call in microseconds, at the slowest rank.
double time_of(nodes_communicator& comm, arrays& a, contestant const& c) {
  barrier(comm);
  auto const began = clock::now();
  c.call(comm, a);
  double elapsed = std::chrono::duration<double, std::micro>(clock::now() - began).count();
  all_reduce(comm, std::span(&elapsed, 1), max{});
  return elapsed;
}

std::int64_t messages_of(nodes_communicator& comm, arrays& a, contestant const& c) {
  counter.messages = 0;
  counter.nodes = &comm.engine().transport().nodes();
  c.call(comm, a);
  counter.nodes = nullptr;
  return all_reduce(comm, std::int64_t{counter.messages});
}

void compare(nodes_communicator& comm, std::string_view what, std::size_t most_rounds) {
  std::vector<contestant> const all = contestants(what);
  if (all.empty()) {
    if (comm.is_main()) fmt::print("{} is not compared here\n", what);
    return;
  }
  bool const keeps_order = what != "all_reduce" && what != "all_to_all";
  if (keeps_order && !comm.engine().transport().nodes().consecutive()) {
    if (comm.is_main()) fmt::print("\n{} has no two levels, because the ranks of a node are not consecutive\n", what);
    return;
  }
  if (comm.is_main()) {
    fmt::print(
        "\n{} of float over {}: median of the slowest rank in us, its ratio to two_level, and messages from node to "
        "node\n",
        what, comm.engine().transport().nodes().text());
    fmt::print("{:>10}", "bytes");
    for (contestant const& c : all) fmt::print(" {:>25}", c.name);
    fmt::print("\n");
  }
  for (std::size_t const bytes : {8u, 512u, 4096u, 65536u, 262144u, 1u << 20}) {
    arrays data(comm, bytes / sizeof(float));
    std::vector<std::vector<double>> times(all.size());
    std::size_t const rounds = std::min<std::size_t>(most_rounds, bytes < 1u << 18 ? 50 : 7);
    // Each round in another order, because a contestant leaves ranks asleep or awake for the next one.
    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937 same_on_all_ranks;
    for (std::size_t round = 0; round < rounds; ++round) {
      std::shuffle(order.begin(), order.end(), same_on_all_ranks);
      for (std::size_t const i : order) {
        double const time = time_of(comm, data, all[i]);
        if (round > 0) times[i].push_back(time);
      }
    }
    if (comm.is_main()) fmt::print("{:>10}", bytes);
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::int64_t const messages = messages_of(comm, data, all[i]);
      if (comm.is_main())
        fmt::print(" {:>10.1f} ({:>5.2f}) {:>6}", median(times[i]), median(times[i]) / median(times[0]),
                   all[i].name == native::name || all[i].name == automatic::name ? "-" : std::to_string(messages));
    }
    if (comm.is_main()) fmt::print("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  auto comm = init<hierarchical>();
  MPI_Comm_group(MPI_COMM_WORLD, &counter.world);
  std::size_t rounds = 50;
  bool named = false;
  for (int i = 1; i < argc; ++i)
    if (std::string_view const word = argv[i]; word.find_first_not_of("0123456789") == word.npos) {
      rounds = std::max<std::size_t>(2, std::stoul(argv[i]));
    } else {
      named = true;
      compare(comm, word, rounds);
    }
  if (!named) compare(comm, "all_reduce", rounds);
  MPI_Group_free(&counter.world);
}
