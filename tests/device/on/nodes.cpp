// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on device memory among ranks of several nodes, here among threads that are told to be on such nodes: which calls
// take two levels, with which bits, and what ranks learn of failures on other nodes.
// labels: threads
// timeout: 300
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "support/device_conformance.hpp"
#include "support/expect.hpp"
#include "support/sanitized.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/device/on/cuda_ranks.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

using node_list = std::vector<int>;  // the node of each rank

on_options<sharing_stand_in> on_node(int node, device_path path = device_path::automatic) {
  return {.path = path, .node = node, .arena = 4096, .slices = {.slice = 2048}};
}

// f(ranks, comm) on each rank, with a device for each.
template <class F>
void on_nodes(node_list const& nodes, F const& f) {
  CAPTURE(nodes.size());
  run_threads(static_cast<int>(nodes.size()), [&](auto& comm) {
    sharing_stand_in const device(comm.rank());
    auto ranks = on(comm, device, on_node(nodes[static_cast<std::size_t>(comm.rank())]));
    f(ranks, comm);
  });
}

template <class T>
device_array<sharing_stand_in, T> array_of(sharing_stand_in const& on, std::vector<T> const& values) {
  device_array<sharing_stand_in, T> out(on, values.size());
  on.copy({}, out.data(), values.data(), values.size() * sizeof(T));
  on.wait({}, deadline::after(std::chrono::seconds{10}));
  return out;
}
template <class T>
std::vector<T> host_copy(sharing_stand_in const& on, T const* data, std::size_t count) {
  std::vector<T> out(count);
  on.copy({}, out.data(), data, count * sizeof(T));
  on.wait({}, deadline::after(std::chrono::seconds{30}));
  return out;
}

// An operation that takes two levels apart: a prologue, an epilogue, and a sum.
struct doubled_mean {
  static constexpr bool commutative = true;
  template <class A>
  TUTTI_HOST_DEVICE A operator()(A a, A b) const {
    return a + b;
  }
  template <class A>
  TUTTI_HOST_DEVICE A prepare(A x) const {
    return x + x;
  }
  template <class A>
  TUTTI_HOST_DEVICE A finish(A x, int ranks) const {
    return x / static_cast<A>(ranks);
  }
};

}  // namespace

TEST_CASE("all collectives have the results of the host on nodes of one size") {
  for (node_list const& nodes : {node_list{0, 0, 1, 1}, {0, 0, 0, 7, 7, 7}, {5, 5, 1, 1, 3, 3}}) {
    if (sanitized && nodes.size() > 4) continue;
    on_nodes(nodes, [](auto& ranks, auto& comm) {
      expect(ranks.path() == device_path::two_level, ranks.explain());
      for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{1000}}) {
        check_reductions_of<std::uint32_t>(ranks, comm, n, sum{});
        check_movement_of<summary>(ranks, comm, n);
      }
      check_reductions_of<std::int64_t>(ranks, comm, 300, doubled_mean{});
      if constexpr (!sanitized) check_reductions_of<affine>(ranks, comm, 700, compose{});
    });
  }
}

TEST_CASE("the ranks of a node need not be neighbours") {
  on_nodes({0, 1, 1, 0, 0, 1}, [](auto& ranks, auto& comm) {
    expect(ranks.path() == device_path::two_level, ranks.explain());
    check_reductions_of<std::uint32_t>(ranks, comm, 1000, sum{});
    check_movement_of<summary>(ranks, comm, 1000);
    if constexpr (!sanitized) check_reductions_of<affine>(ranks, comm, 300, compose{});
  });
}

TEST_CASE("values are combined inside nodes first, with the same bits on all ranks") {
  on_nodes({0, 0, 1, 1}, [](auto& ranks, auto& comm) {
    // In rank order, 1 is lost in the large value.
    float const mine[] = {1e8f, -1e8f, 0.25f, 1e8f};
    auto const r = static_cast<std::size_t>(comm.rank());
    auto const data = array_of(ranks.on(), std::vector<float>(1000, mine[r]));
    all_reduce(ranks, data);
    float const expected = (mine[0] + mine[1]) + (mine[2] + mine[3]);
    expect(host_copy(ranks.on(), data.data(), 1000) == std::vector<float>(1000, expected), "the order of two levels");
    auto const again = array_of(ranks.on(), std::vector<float>(1000, mine[r]));
    all_reduce(ranks, again, sum{}, {.algorithm = algorithm_id::one_shot});
    float const in_order = ((mine[0] + mine[1]) + mine[2]) + mine[3];
    expect(host_copy(ranks.on(), again.data(), 1000) == std::vector<float>(1000, in_order), "the order of ranks");
    auto const named = array_of(ranks.on(), std::vector<float>(1000, mine[r]));
    all_reduce(ranks, named, sum{}, {.algorithm = algorithm_id::two_level});
    expect(host_copy(ranks.on(), named.data(), 1000) == std::vector<float>(1000, expected), "named by its id");
  });
}

TEST_CASE("calls that two levels cannot serve take all ranks at once") {
  on_nodes({0, 0, 1, 1}, [](auto& ranks, auto&) {
    auto const in = array_of(ranks.on(), std::vector<float>(100, 1.0f));
    auto const out = array_of(ranks.on(), std::vector<double>(100, 0.0));
    all_reduce(ranks, in, out);
    expect(host_copy(ranks.on(), out.data(), 100) == std::vector<double>(100, 4.0), "another type of output");
    all_reduce(ranks, in, fused{sum{}, scale{0.5f}});
    expect(host_copy(ranks.on(), in.data(), 100) == std::vector<float>(100, 2.0f), "a fused operation");
    all_reduce<two_shot>(ranks, in);
    expect(host_copy(ranks.on(), in.data(), 100) == std::vector<float>(100, 8.0f), "a named algorithm");
    error const e = error_of([&] { all_reduce<ring>(ranks, in); });
    expect_error(e, error_code::bad_argument, "because the ranks are on 2 nodes of 2 ranks");
    expect_error(error_of([&] { scan(ranks, in, sum{}, {.algorithm = algorithm_id::two_level}); }),
                 error_code::bad_argument, "cuda_staged has no scan with two_level");
    barrier(ranks);
  });
}

TEST_CASE("calls and works that name no stream use that of the ranks on nodes too") {
  run_threads(4, [](auto& comm) {
    sharing_stand_in const device(comm.rank());
    stand_in_stream stream;
    auto how = on_node(comm.rank() / 2);
    how.stream = &stream;
    auto ranks = on(comm, device, how);
    auto const data = array_of(device, std::vector<float>(1000, 1.0f));
    all_reduce(ranks, data);
    expect(stream.how_far()->given > 0, "the stream was given the call");
    ranks.work().wait();
    expect(host_copy(device, data.data(), 1000) == std::vector<float>(1000, 4), "its work waits for the stream");
    stream.begin_capture();
    expect_error(error_of([&] { all_reduce(ranks, data); }), error_code::bad_argument,
                 "is being captured into a graph");
    static_cast<void>(stream.end_capture());
    barrier(ranks);
  });
}

TEST_CASE("nodes with different numbers of ranks go by way of the host, and it tells so") {
  for (node_list const& nodes : {node_list{0, 0, 1}, {0, 1, 2}, {0, 0, 0, 1, 1}})
    on_nodes(nodes, [&](auto& ranks, auto& comm) {
      expect(ranks.path() == device_path::staged, ranks.explain());
      expect(ranks.explain().find("two levels need nodes that have the same number of ranks, from 2 to 64") !=
                 std::string::npos,
             ranks.explain());
      check_reductions_of<std::uint32_t>(ranks, comm, 100, sum{});
    });
  run_threads(3, [](auto& comm) {
    sharing_stand_in const device(comm.rank());
    error const e =
        error_of([&] { static_cast<void>(on(comm, device, on_node(comm.rank() / 2, device_path::two_level))); });
    expect_error(e, error_code::bad_argument,
                 "the ranks cannot take the path two_level: the ranks are on 2 nodes of 1 to 2 ranks");
    expect(all_reduce(comm, 1) == 3, "the communicator goes on");
  });
}

TEST_CASE("a node whose ranks cannot read each other's memory is named, and all go by way of the host") {
  run_threads(4, [](auto& comm) {
    sharing_stand_in device(comm.rank());
    device.refuses.opening = comm.rank() == 3;
    auto ranks = on(comm, device, on_node(comm.rank() / 2));
    expect(ranks.path() == device_path::staged, ranks.explain());
    expect(ranks.explain().find("between the ranks {2, 3}, renumbered from 0: rank 1 cannot share its device: the "
                                "stand-in refuses to open memory") != std::string::npos,
           ranks.explain());
    check_reductions_of<std::uint32_t>(ranks, comm, 100, sum{});
  });
}

TEST_CASE("an impossible arena is refused at all ranks of all nodes") {
  run_threads(4, [](auto& comm) {
    sharing_stand_in const device(comm.rank());
    auto how = on_node(comm.rank() / 2);
    if (comm.rank() == 3) how.arena = std::size_t(-1);
    expect_error(error_of([&] { static_cast<void>(on(comm, device, how)); }), error_code::bad_argument,
                 "an arena of 18446744073709551615 bytes is larger than memory can be");
    expect(all_reduce(comm, 1) == 4, "the communicator goes on");
  });
}

TEST_CASE("it tells which calls take two levels, and how nodes communicate inside") {
  on_nodes({0, 0, 1, 1}, [](auto& ranks, auto&) {
    std::string const said = ranks.explain();
    for (char const* const part :
         {"all_reduce, reduce, reduce_scatter, broadcast and all_gather take two levels", "2 nodes of 2 ranks",
          "data travel through pinned host memory between nodes", "in rank order inside each node",
          "Inside the node: rank ", "ranks read each other's memory"})
      expect(said.find(part) != std::string::npos, said);
  });
}

TEST_CASE("a rank that makes another call is found on its node and on others") {
  for (int const odd : {1, 2})
    on_nodes({0, 0, 1, 1}, [odd](auto& ranks, auto& comm) {
      auto const data = array_of(ranks.on(), std::vector<float>(100, 1.0f));
      error const e = error_of([&] {
        barrier(comm);  // where a rank may still be when others learn of the fault
        if (comm.rank() == odd) all_reduce(ranks, data, tutti::max{}, {.timeout = std::chrono::seconds{5}});
        else all_reduce(ranks, data, sum{}, {.timeout = std::chrono::seconds{5}});
        barrier(ranks);
      });
      expect_error(e, error_code::mismatch, "renumbered from 0");
    });
}
TEST_CASE("nodes that make different calls find that out") {
  on_nodes({0, 0, 1, 1}, [](auto& ranks, auto& comm) {
    auto const data = array_of(ranks.on(), std::vector<float>(100, 1.0f));
    error const e = error_of([&] {
      barrier(comm);
      if (comm.rank() < 2) all_reduce(ranks, data, tutti::max{}, {.timeout = std::chrono::seconds{5}});
      else all_reduce(ranks, data, sum{}, {.timeout = std::chrono::seconds{5}});
      barrier(ranks);
    });
    expect_error(e, error_code::mismatch, "renumbered from 0");
  });
}
TEST_CASE("a rank that does not come is a fault of all ranks") {
  on_nodes({0, 0, 1, 1}, [](auto& ranks, auto& comm) {
    auto const data = array_of(ranks.on(), std::vector<float>(100, 7.0f));
    error const e = error_of([&] {
      barrier(comm);
      if (comm.rank() != 3) all_reduce(ranks, data, sum{}, {.timeout = std::chrono::milliseconds{300}});
      for (int i = 0; i < 20000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds{1})) {
        comm.engine().expect_no_fault();
        ranks.work().wait();
      }
    });
    expect_error(e, error_code::timeout, "did not complete");
  });
}
TEST_CASE("ranks that meet to allocate memory wait no longer than the call") {
  on_nodes({0, 0, 1, 1}, [](auto& ranks, auto& comm) {
    auto const data = array_of(ranks.on(), std::vector<float>(1000, 1.0f));
    auto const soon = deadline::after(std::chrono::seconds{60});
    error const e = error_of([&] {
      barrier(comm);
      if (comm.rank() % 2 == 0) reduce(ranks, data, sum{}, 0, {.timeout = std::chrono::milliseconds{300}});
      for (; !soon.passed(); std::this_thread::sleep_for(std::chrono::milliseconds{1})) comm.engine().expect_no_fault();
    });
    expect_error(e, error_code::timeout, "renumbered from 0");
  });
}
TEST_CASE("no rank of a node allocates memory while kernels of others wait for it") {
  run_threads(4, [](auto& comm) {
    sharing_stand_in device(comm.rank());
    auto ranks = on(comm, device, on_node(comm.rank() / 2));
    auto const in = array_of(device, std::vector<float>(400, 1.0f)), out = array_of(device, std::vector<float>(100));
    barrier(comm);
    device.allocates_when_idle = true;
    if (comm.rank() % 2 == 1) std::this_thread::sleep_for(std::chrono::milliseconds{200});
    reduce_scatter(ranks, in, out, sum{}, {.timeout = std::chrono::seconds{10}});
    ranks.work().wait();
    device.allocates_when_idle = false;
    expect(host_copy(device, out.data(), 100) == std::vector<float>(100, 4), "the sum of ones");
    barrier(comm);
  });
}
TEST_CASE("a rank that lacks memory for a call is a fault of all ranks, which do not wait for it") {
  run_threads(4, [](auto& comm) {
    sharing_stand_in device(comm.rank());
    auto ranks = on(comm, device, on_node(comm.rank() / 2));
    auto const data = array_of(device, std::vector<float>(1000, 1.0f));
    device.refuses.memory = comm.rank() == 1;
    error const e = error_of([&] {
      barrier(comm);  // where a rank may still be when others learn of the fault
      reduce(ranks, data, sum{}, 0, {.timeout = std::chrono::seconds{20}});
      ranks.work().wait();
      for (;; std::this_thread::sleep_for(std::chrono::milliseconds{1})) comm.engine().expect_no_fault();
    });
    device.refuses.memory = false;
    expect_error(e, error_code::system, "the stand-in refuses memory");
  });
}
