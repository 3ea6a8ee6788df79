// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints what grows with the number of ranks, counted from the structures themselves: the memory of a rank over MPI, which this process
// stands for, and its peers and steps in each algorithm. The arguments are numbers of ranks.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

#include "mpi/pretended_ranks.hpp"
#include "support/replaced_new.hpp"
#include "tutti/call/topology.hpp"
#include "tutti/message/messenger.hpp"

using namespace tutti;
using namespace tutti::detail;
using tutti::testing::transport_among;

namespace {

std::size_t allocated_bytes = 0;

// What f() allocates, and keeps or passes on.
template <class F>
std::size_t bytes_of(F&& f) {
  std::size_t const before = allocated_bytes;
  [[maybe_unused]] auto const made = f();
  return allocated_bytes - before;
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

template <class F>
double milliseconds_of(F&& f) {
  auto const begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

void row(std::string const& name, std::vector<int> const& ranks, auto&& cell) {
  std::printf("| %s |", name.c_str());
  for (int const p : ranks) std::printf(" %s |", cell(p).c_str());
  std::printf("\n");
  std::fflush(stdout);
}

void head(char const* what, std::vector<int> const& ranks) {
  std::printf("\n| %s |", what);
  for (int const p : ranks) std::printf(" %d ranks |", p);
  std::printf("\n|---|");
  for (std::size_t i = 0; i < ranks.size(); ++i) std::printf("---:|");
  std::printf("\n");
}

std::string text(std::size_t bytes) {
  char out[64];
  if (bytes < 10'000) std::snprintf(out, sizeof out, "%zu B", bytes);
  else if (bytes < 10'000'000) std::snprintf(out, sizeof out, "%.1f kB", static_cast<double>(bytes) * 1e-3);
  else std::snprintf(out, sizeof out, "%.1f MB", static_cast<double>(bytes) * 1e-6);
  return out;
}

constexpr int on_a_node = 64;

// Ranks on nodes of 64, in order.
std::vector<location> locations_of(int ranks) {
  std::vector<location> out;
  for (int r = 0; r < ranks; ++r) out.push_back({r / on_a_node, r % on_a_node / 8 * 8});
  return out;
}
std::vector<int> nodes_of(int ranks) {
  std::vector<int> out;
  for (int r = 0; r < ranks; ++r) out.push_back(r / on_a_node);
  return out;
}

// The most peers that any of some ranks sends to and receives from, and the most steps that it takes.
struct fan {
  std::size_t peers = 0;
  int steps = 0, widest = 0;
};
fan fan_of(dynamic_schedule const& s, int ranks) {
  fan out;
  shape const of{ranks};
  for (int const rank : {0, 1, ranks / 2 - 1, ranks / 2, ranks - 1}) {
    std::set<int> peers;
    int steps = 0;
    for (int lane = 0; lane < s.lanes(of); ++lane)
      for (int phase = 0; phase < s.phases(of); ++phase) {
        position const me{rank, lane, phase};
        int const all = s.steps(of, me);
        steps += all;
        for (int i = 0; i < all; ++i) {
          step const now = s.at(of, me, i);
          for (auto const& some : {now.from, now.to}) {
            out.widest = std::max(out.widest, some.count);
            for (int k = 0; k < some.count; ++k) peers.insert(some.at(k, ranks));
          }
        }
      }
    peers.erase(rank);
    out.peers = std::max(out.peers, peers.size());
    out.steps = std::max(out.steps, steps);
  }
  return out;
}

void print_memory(std::vector<int> const& ranks) {
  head("memory of a rank", ranks);
  row("a communicator over MPI, before its first call", ranks,
      [](int p) { return text(bytes_of([&] { return communicator<mpi>(transport_among(p)); })); });
  row("once it sends or receives a tagged message", ranks, [](int p) {
    communicator<mpi> comm(transport_among(p));
    return text(bytes_of([&] { return std::make_unique<messenger<mpi>>(comm.engine().transport()); }));
  });
  row("once a call has waited long, if all ranks send it notices", ranks,
      [](int p) { return text(static_cast<std::size_t>(p) * sizeof(mpi_notice_state::notice)); });
  row("the node and cache of each rank (nodes of 64)", ranks, [](int p) {
    return text(bytes_of([&] { return locations_of(p); }) / 2 + bytes_of([&] { return node_map(nodes_of(p)); }) / 2);
  });
  row("what split gathers, meanwhile", ranks, [](int p) { return text(static_cast<std::size_t>(p) * 8); });

  head("a peer", ranks);
  constexpr int peers = 100;
  row("with a channel in both directions, before its first message", ranks, [](int p) {
    auto const transport = transport_among(p);
    std::size_t const before = resident_bytes();
    for (int peer = 1; peer <= peers; ++peer) testing::open_channels(*transport, peer);
    return text((resident_bytes() - before) / peers);
  });
  row("of that, address space", ranks, [](int p) {
    auto const transport = transport_among(p);
    return text(bytes_of([&] {
                  for (int peer = 1; peer <= peers; ++peer) testing::open_channels(*transport, peer);
                  return 0;
                }) /
                peers);
  });
}

void print_times(std::vector<int> const& ranks) {
  head("milliseconds of a rank alone", ranks);
  auto const time = [](auto&& f) {
    char out[32];
    std::snprintf(out, sizeof out, "%.2f", milliseconds_of(f));
    return std::string(out);
  };
  row("creating and closing the communicator, without messages", ranks,
      [&](int p) { return time([&] { communicator<mpi> comm(transport_among(p)); }); });
  row("the map of nodes", ranks, [&](int p) {
    auto const keys = nodes_of(p);
    return time([&] { node_map const map(keys); });
  });
  row("the topology", ranks, [&](int p) {
    auto const places = locations_of(p);
    return time([&] { topology const where(places, tuning()); });
  });
  row("the list of a group of all ranks, checked", ranks, [&](int p) {
    std::vector<int> all;
    for (int r = 0; r < p; ++r) all.push_back(r);
    return time([&] { check_members(all, 0, p, std::source_location::current()); });
  });
  row("the first choice of an algorithm by the cost model", ranks, [&](int p) {
    return time([&] {
      tuning fresh;
      fresh.select({.what = collective::all_gather, .bytes = 64, .ranks = p, .messages = true});
    });
  });
}

void print_fans(std::vector<int> const& ranks) {
  head("peers and steps of a rank", ranks);
  for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule s) {
    if (c != collective::all_reduce && c != collective::all_gather && c != collective::all_to_all &&
        c != collective::barrier)
      return;
    row(std::string(name(c)) + ", " + std::string(name(id)), ranks, [&](int p) {
      fan const f = fan_of(s, p);
      return std::to_string(f.peers) + ", " + std::to_string(f.steps);
    });
  });
}

}  // namespace

void tutti::testing::note_allocation(std::size_t bytes) { allocated_bytes += bytes; }

int main(int argc, char** argv) {
  std::vector<int> ranks;
  for (int i = 1; i < argc; ++i) ranks.push_back(std::atoi(argv[i]));
  if (ranks.empty()) ranks = {1000, 10'000, 100'000};
  if (*std::ranges::min_element(ranks) < 128) {
    std::fprintf(stderr, "usage: bench_scale_<mpi> <numbers of ranks, 128 or more>...\n");
    return 2;
  }
  print_memory(ranks);
  print_times(ranks);
  print_fans(ranks);
}
