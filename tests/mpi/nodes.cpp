// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks on nodes: every collective by two_level over even, uneven and scattered made-up nodes, and the errors of ranks
// that disagree, are late or leave.
// ranks: 8
// timeout: 280
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mpi.h>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include "call/groups.hpp"
#include "collective/mixed.hpp"
#include "collective/registered.hpp"
#include "mpi/ranks.hpp"
#include "support/conformance.hpp"
#include "support/expect.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

std::chrono::milliseconds delay{};  // of MPI_Iallreduce in this process

}  // namespace

// Takes the place of the MPI's.
extern "C" int MPI_Iallreduce(void const* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                              MPI_Request* request) {
  std::this_thread::sleep_for(delay);
  return PMPI_Iallreduce(in, out, count, type, op, comm, request);
}

namespace {

// The node of each rank.
struct ground {
  char const* name;
  int (*node_of)(int rank);
};
constexpr ground grounds[] = {
    {"one node", [](int) { return 0; }},
    {"a node each", [](int rank) { return rank; }},
    {"pairs", [](int rank) { return rank / 2; }},
    {"uneven", [](int rank) { return rank == 0  ? 0
                                     : rank < 4 ? 1
                                                : 2; }},
    {"scattered", [](int rank) { return rank % 2; }},
    {"scattered and uneven", [](int rank) { return rank % 3 == 2 ? 1 : 0; }},
    {"one and the others", [](int rank) { return rank == 0 ? 0 : 1; }},
};

template <class F>
std::string on_ground(ground const& g, int ranks, F&& f) {
  auto const make = [&](MPI_Comm part) {
    int rank = 0;
    MPI_Comm_rank(part, &rank);
    return communicator<hierarchical>(
        std::make_unique<hierarchical>(part, all_tracks, std::chrono::seconds(60), g.node_of(rank)));
  };
  return on_ranks(ranks, make, f);
}

template <class Comm>
bool two_levels_serve(Comm& comm, collective c, bool commutative, bool ragged = false) {
  bool const consecutive = comm.engine().transport().nodes().consecutive();
  return objection(algorithm_id::two_level, {.what = c,
                                             .ranks = comm.size(),
                                             .commutative = commutative,
                                             .ragged = ragged,
                                             .nodes = consecutive ? node_order::consecutive : node_order::scattered})
      .empty();
}

template <class T, class Comm, class Op>
void check_collectives(Comm& comm, Op const& op, std::vector<std::size_t> const& counts) {
  conformance<Comm> check(comm);
  int turn = 0;
  for (collective const c : every_collective)
    for (std::size_t const count : counts)
      for (int const root : some_roots(c, comm.size())) {
        ++turn;
        for (algorithm_id const id : {algorithm_id::automatic, algorithm_id::two_level}) {
          if (id == algorithm_id::two_level && !two_levels_serve(comm, c, is_commutative<Op>)) continue;
          trial const how{.options = {.algorithm = id},
                          .count = count,
                          .root = root,
                          .in_place = turn % 2 == 0,
                          .shared = turn % 4 < 2};
          check.template check<T>(c, how, op);
          bool const serves_ragged =
              id == algorithm_id::automatic || two_levels_serve(comm, c, is_commutative<Op>, true);
          if (by_block(c) && serves_ragged) check.template check_ragged<T>(c, how, op);
        }
      }
}

template <class Inside, class Across, class Comm>
void check_named(Comm& comm) {
  using levels = two_level<Inside, Across>;
  int const last = comm.size() - 1;
  for (std::size_t const n : {1u, 3u, 20'000u}) {
    std::vector<int> one(n, 1), sums(n), every(n * static_cast<std::size_t>(comm.size()), 1), part(n);
    all_reduce<levels>(comm, one, sums);
    expect(sums[n - 1] == comm.size(), "all_reduce");
    reduce<levels>(comm, one, sums, sum{}, last);
    expect(comm.rank() != last || sums[n - 1] == comm.size(), "reduce");
    reduce_scatter<levels>(comm, every, part);
    expect(part[n - 1] == comm.size(), "reduce_scatter");
    part.assign(n, comm.rank());
    all_gather<levels>(comm, part, every);
    expect(every.back() == last, "all_gather");
    std::fill(every.begin(), every.end(), -1);
    gather<levels>(comm, part, every, last);
    expect(comm.rank() != last || every[n] == 1, "gather");
    scatter<levels>(comm, every, one, last);
    expect(one[n - 1] == comm.rank(), "scatter");
    broadcast<levels>(comm, one, 1);
    expect(one[0] == 1, "broadcast");
    for (std::size_t i = 0; i < every.size(); ++i) every[i] = comm.rank() * comm.size() + static_cast<int>(i / n);
    all_to_all<levels>(comm, every);
    expect(every.back() == last * comm.size() + comm.rank(), "all_to_all");
    scan<levels>(comm, one, sums);
    expect(sums[n - 1] == comm.rank() + 1, "scan");
    exclusive_scan<levels>(comm, one, sums);
    expect(sums[n - 1] == std::max(comm.rank(), 1), "exclusive_scan");
    std::vector<std::size_t> const counts(static_cast<std::size_t>(comm.size()), n);
    all_gather_v<levels>(comm, part, every, counts);
    expect(every.back() == last, "all_gather_v");
    std::fill(every.begin(), every.end(), 1);
    reduce_scatter_v<levels>(comm, every, part, counts);
    expect(part[n - 1] == comm.size(), "reduce_scatter_v");
    barrier<levels>(comm);
    std::vector<affine> maps(n);
    all_reduce<levels>(comm, maps, compose{});
  }
}

error error_of(ground const& g, int ranks, auto&& f) {
  error out({.what = "nothing was thrown"});
  CHECK(on_ground(g, ranks, [&](auto& comm) { out = testing::error_of([&] { f(comm); }); }) == "");
  return out;
}

}  // namespace

TEST_CASE("every collective gives the right result over nodes") {
  for (ground const& g : grounds)
    for (int const ranks : {1, 2, 3, 4, 5, 7, 8}) {
      bool const any_size = g.name == grounds[2].name, large = g.name == grounds[3].name;
      if (!any_size && ranks != (large ? 8 : 5)) continue;
      CAPTURE(g.name);
      CAPTURE(ranks);
      CHECK(on_ground(g, ranks, [](auto& comm) {
              check_collectives<std::int32_t>(comm, sum{}, {0, 3, 40'000});
              check_collectives<affine>(comm, compose{}, {900});
            }) == "");
    }
}

TEST_CASE("ranks without a limit wait for those that take longer to set up their node") {
  auto const make = [](MPI_Comm part) {
    return communicator<hierarchical>(
        std::make_unique<hierarchical>(part, all_tracks, std::chrono::nanoseconds::max(), world().rank()));
  };
  if (world().rank() == 1) delay = 100ms;
  CHECK(on_ranks(2, make, [](auto& comm) { barrier(comm); }) == "");
  delay = {};
}

TEST_CASE("prologues, epilogues and wide accumulators keep their meaning over nodes") {
  for (ground const& g : grounds) {
    CAPTURE(g.name);
    CHECK(on_ground(g, 6, [](auto& comm) {
            for (std::size_t const n : {10u, 20'000u}) {
              std::vector<int> mine(n, comm.rank() + 1), all(n);
              all_reduce(comm, mine, all, mean{});
              expect(all[n - 1] == 3 && mine[0] == comm.rank() + 1, "a wrong mean");
              std::vector<float> ones(n, 2), half_sum(n);
              all_reduce(comm, ones, half_sum, premultiplied_sum<float>{0.5F});
              expect(half_sum[n - 1] == 6 && ones[0] == 2, "the prologue was not applied once");
              all_reduce<two_level<ring, recursive_doubling>>(comm, ones, sum{});
              expect(ones[0] == 12, "a wrong sum by named levels");
              std::vector<bfloat16> small(n, bfloat16(1.0f));
              reduce(comm, small, sum{}, 5);
              expect(comm.rank() != 5 || static_cast<float>(small[0]) == 6, "a wrong sum of bfloat16");
              float const before = static_cast<float>(comm.rank());
              std::ranges::fill(ones, 2.0F);
              scan(comm, ones, half_sum, premultiplied_sum<float>{0.5F});
              expect(half_sum[n - 1] == before + 1 && ones[0] == 2, "the prologue was not applied once in a scan");
              exclusive_scan(comm, ones, premultiplied_sum<float>{0.5F});
              expect(ones[n - 1] == (comm.rank() == 0 ? 2 : before), "the prologue was not applied once before");
              std::ranges::fill(small, bfloat16(1.0F));
              scan(comm, small);
              expect(static_cast<float>(small[n - 1]) == before + 1, "a wrong scan of bfloat16");
            }
          }) == "");
  }
}

TEST_CASE("random sequences of collectives do not disturb each other over nodes") {
  unsigned seed = 1;
  for (ground const& g : grounds) {
    CAPTURE(g.name);
    CHECK(on_ground(g, 5, [&](auto& comm) { check_random_sequence(comm, seed, 100); }) == "");
    ++seed;
  }
}

TEST_CASE("groups of ranks on nodes know their nodes") {
  CHECK(on_ground(grounds[2], 4, [](auto& comm) { check_splits(comm); }) == "");
  CHECK(on_ground(grounds[5], 4, [](auto& comm) { check_subgroups(comm); }) == "");
  for (ground const& g : {grounds[0], grounds[2]}) {
    CAPTURE(g.name);
    CHECK(on_ground(g, 5, [](auto& comm) { check_numbering(comm); }) == "");
  }
  CHECK(on_ground(grounds[3], 8, [](auto& comm) {
          auto upper = comm.split(comm.rank() / 4).value();
          expect(upper.engine().transport().nodes().text() ==
                     (comm.rank() < 4 ? "2 nodes of 1 to 3 ranks" : "1 node of 4 ranks"),
                 "a group knows other nodes");
        }) == "");
}

TEST_CASE("what is chosen over nodes, and why") {
  CHECK(
      on_ground(grounds[3], 8, [](auto& comm) {
        auto const chosen = explain<float>(comm, collective::all_reduce, 100'000);
        CHECK(chosen.algorithm == algorithm_id::two_level);
        CHECK(chosen.text.find("shm inside and mpi across 3 nodes of 1 to 4 ranks (estimated: ") != std::string::npos);
        CHECK(
            chosen.text.find("\nacross nodes, 3 nodes of 1 to 4 ranks: latency 20 us, bandwidth 1.18 GB/s (assumed)") !=
            std::string::npos);
        CHECK(explain<float>(comm, collective::all_to_all, 100'000).algorithm != algorithm_id::two_level);
      }) == "");
  for (ground const* const g : {&grounds[2], &grounds[4]})
    CHECK(on_ground(*g, 8, [](auto& comm) {
            auto const chosen = [&](collective c, std::size_t count) { return explain<int>(comm, c, count); };
            CHECK(chosen(collective::all_to_all, 1).text.find("two_level, over shm inside and mpi across ") !=
                  std::string::npos);
            CHECK(chosen(collective::all_to_all, 100'000).algorithm != algorithm_id::two_level);
            bool const consecutive = comm.engine().transport().nodes().consecutive();
            for (collective const c : {collective::scan, collective::exclusive_scan})
              for (std::size_t const count : {1u, 100'000u})
                CHECK((chosen(c, count).algorithm == algorithm_id::two_level) == consecutive);
          }) == "");
  CHECK(on_ground(grounds[0], 4, [](auto& comm) {
          CHECK(explain<float>(comm, collective::all_reduce, 1).text.find("on 4 ranks over shm") != std::string::npos);
        }) == "");
  CHECK(on_ground(grounds[4], 4, [](auto& comm) {
          std::vector<affine> v(3);
          CHECK_THROWS_WITH_AS(all_reduce(comm, v, compose{}, {.algorithm = algorithm_id::two_level}),
                               doctest::Contains("the ranks of a node are not consecutive"), error);
        }) == "");
}

TEST_CASE("links that are measured at start are the same at all ranks") {
  ::setenv("TUTTI_TOPOLOGY", "measure", 1);
  for (ground const& g : grounds) {
    CAPTURE(g.name);
    CHECK(on_ground(g, 8, [](auto& comm) {
            detail::agree_on_tuning(comm.engine());
            auto const& times = comm.engine().tuned.table().links.all;
            std::vector<link_time> mine(times.begin(), times.end()), all(mine.size() * 8);
            all_gather(comm, mine, all);
            for (std::size_t i = 0; i < all.size(); ++i)
              expect(all[i] == mine[i % mine.size()], "ranks have other times");
            auto const where = topology_of(comm);
            for (auto const& l : where.levels())
              expect(l.link.source == "measured at start", "a level is not measured");
          }) == "");
  }
  ::unsetenv("TUTTI_TOPOLOGY");
}

TEST_CASE("any algorithm can be named inside and across; what does not serve a part is left to tutti") {
  CHECK(on_ground(grounds[2], 6, [](auto& comm) {
          check_named<binomial_tree, binomial_tree>(comm);
          check_named<bruck, bruck>(comm);
          check_named<ring, native>(comm);
          check_named<one_shot, recursive_halving>(comm);
          check_named<native, pairwise>(comm);
        }) == "");
}

TEST_CASE("where ranks of one node cannot share memory, all ranks throw why") {
  std::string const thrown = on_ranks(
      4,
      [](MPI_Comm part) {
        int const rank = world().rank();
        rlimit whole{}, none{};
        ::getrlimit(RLIMIT_FSIZE, &whole);
        none = {.rlim_cur = 4096, .rlim_max = whole.rlim_max};
        if (rank == 2) ::setrlimit(RLIMIT_FSIZE, &none);
        struct undo {
          rlimit before;
          ~undo() { ::setrlimit(RLIMIT_FSIZE, &before); }
        } const restored{whole};
        return communicator<hierarchical>(
            std::make_unique<hierarchical>(part, all_tracks, std::chrono::seconds(20), rank / 2));
      },
      [](auto&) {});
  if (world().rank() < 4) CHECK(thrown.find("rank 2: cannot set the size of shared memory") != std::string::npos);
}

TEST_CASE("a mismatch over nodes is found, and names both calls by their ranks") {
  for (int const odd : {0, 1, 3, 4}) {
    error const e = error_of(grounds[2], 5, [&](auto& comm) {
      barrier<two_level<>>(comm);
      std::vector<float> v(comm.rank() == odd ? 5 : 4);
      all_reduce<two_level<>>(comm, v);
      barrier<two_level<>>(comm);
    });
    if (world().rank() >= 5) continue;
    INFO(std::string(e.what()));
    CHECK(e.code() == error_code::mismatch);
    CHECK(contains(e, "call #2"));
    CHECK(contains(e, "rank " + std::to_string(odd) + " calls all_reduce of 5 float with sum (two_level)"));
    CHECK(contains(e, "calls all_reduce of 4 float with sum (two_level)"));
  }
}

TEST_CASE("calls over nodes that differ in type or root alone are a mismatch") {
  error const e = error_of(grounds[2], 4, [&](auto& comm) {
    std::vector<int> mine(2), all(8);
    std::vector<float> other(2), others(8);
    if (comm.rank() == 1) all_gather<two_level<>>(comm, other, others);
    else all_gather<two_level<>>(comm, mine, all);
    for (int i = 0; i < 3; ++i) broadcast<two_level<>>(comm, all, comm.rank() == 1 ? 2 : 0);
    barrier<two_level<>>(comm);
  });
  if (world().rank() < 4) {
    INFO(std::string(e.what()));
    CHECK(e.code() == error_code::mismatch);
    CHECK(contains(e, "call #1"));
    CHECK(contains(e, "rank 1 calls all_gather of 2 float"));
  }
}

TEST_CASE("a timeout over nodes names who has not arrived") {
  for (int const late : {0, 3}) {
    error const e = error_of(grounds[2], 4, [&](auto& comm) {
      std::vector<int> v(3, 1);
      all_reduce<two_level<>>(comm, v);
      if (comm.rank() == late) std::this_thread::sleep_for(4s);
      all_reduce<two_level<>>(comm, v, sum{}, {.timeout = 2s});
    });
    if (world().rank() >= 4) continue;
    INFO(std::string(e.what()));
    CHECK(e.code() == error_code::timeout);
    CHECK(contains(e, "rank " + std::to_string(late) + " has not arrived: it is in or after call #1"));
  }
}

TEST_CASE("a rank that leaves is named over nodes") {
  for (int const ranks : {4, 5})
    for (int const leaver : {0, 1, 2, ranks - 1}) {
      error const e = error_of(grounds[2], ranks, [&](auto& comm) {
        barrier<two_level<>>(comm);
        if (comm.rank() != leaver) barrier<two_level<>>(comm);
      });
      if (world().rank() >= ranks || world().rank() == leaver) continue;
      INFO(std::string(e.what()));
      CHECK(e.code() == error_code::rank_left);
      CHECK(contains(e, "rank " + std::to_string(leaver) + " closed its communicator after call #1"));
    }
}
