// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The MPI's own collectives, as the algorithm `native`, compared with the reference.
// ranks: 3
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <mpi.h>
#include <span>
#include <string>
#include <sys/mman.h>
#include <vector>

#include "mpi/ranks.hpp"
#include "support/conformance.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

int longest_type = 0;  // of those that this process has asked the MPI for, in elements
bool types_fail = false;

}  // namespace

// Takes the place of the MPI's.
extern "C" int MPI_Type_contiguous(int count, MPI_Datatype of, MPI_Datatype* made) {
  longest_type = std::max(longest_type, count);
  return types_fail ? MPI_ERR_INTERN : PMPI_Type_contiguous(count, of, made);
}

namespace {

template <class T, class Comm, class Op>
void check_all(Comm& comm, Op const& op) {
  conformance<Comm> check(comm);
  for (collective const c : every_collective)
    for (std::size_t const count : {0u, 1u, 1000u})
      for (int const root : {0, comm.size() - 1})
        for (bool const in_place : {false, true}) {
          trial const t{
              .options = {.algorithm = algorithm_id::native}, .count = count, .root = root, .in_place = in_place};
          check.template check<T>(c, t, op);
          check.template check_ragged<T>(c, t, op);
        }
}

// A functor with state, of which two may be in use at once.
struct weighted {
  static constexpr bool commutative = true;
  int weight;
  int operator()(int a, int b) const { return a + b + weight; }
};

}  // namespace

TEST_CASE("native gives the right result for every collective") {
  for (int const ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) {
            check_all<std::int32_t>(comm, sum{});
            check_all<affine>(comm, compose{});
          }) == "");
  }
}

TEST_CASE("native takes every type and operation") {
  CHECK(on_ranks(3, [](auto& comm) {
          conformance<std::remove_reference_t<decltype(comm)>> check(comm);
          trial const t{.options = {.algorithm = algorithm_id::native}, .count = 1000};
          check.template check_all_reduce<float>(t, tutti::min{});
          check.template check_all_reduce<double>(t, product{});
          check.template check_all_reduce<std::uint8_t>(t, sum{});
          check.template check_all_reduce<std::int64_t>(t, bit_xor{});
          check.template check_all_reduce<std::uint32_t>(t, tutti::max{});
          check.template check_all_reduce<std::int32_t>(t, tutti::min{});
          check.template check_all_reduce<std::int32_t>(t, mean{});

          std::vector<int> v(10, 1);
          all_reduce<native>(comm, v, weighted{10});
          if (v.back() != 3 + 2 * 10) throw std::runtime_error("the state of the functor was lost");
          std::vector<float> scaled(10, 2), out(10);
          all_reduce<native>(comm, scaled, out, premultiplied_sum<float>{0.5F});
          if (out.back() != 3 || scaled.back() != 2) throw std::runtime_error("the prologue was not applied");
        }) == "");
}

TEST_CASE(
    "native asks the MPI for no larger type than that of an element, and all ranks learn that one can have none") {
  auto const compose_some = [](auto& comm) {
    std::vector<affine> v(3);
    all_reduce<native>(comm, v, compose{}, {.timeout = std::chrono::seconds(5)});
  };
  longest_type = 0;
  CHECK(on_ranks(2, compose_some) == "");
  CHECK(longest_type <= static_cast<int>(sizeof(affine)));
  types_fail = world().rank() == 1;
  std::string const thrown = on_ranks(3, compose_some);
  char const* const expected = types_fail ? "MPI_Type_contiguous failed" : "rank 1 gave up call #1, all_reduce";
  types_fail = false;
  CHECK_MESSAGE(thrown.find(expected) != std::string::npos, thrown);
}

TEST_CASE("what a library would round on the way is not left to it") {
  CHECK(on_ranks(3, [](auto& comm) {
          std::vector<half> v(10'000, half(40000.0f));  // the sum of two of them overflows half
          all_reduce(comm, v, mean{});
          for (half const x : v)
            if (static_cast<float>(x) != 40000.0f) throw std::runtime_error("a mean has overflowed");
          CHECK(explain<half, mean>(comm, collective::all_reduce, v.size()).algorithm != algorithm_id::native);
          CHECK(explain<half>(comm, collective::broadcast, 10 * v.size()).algorithm == algorithm_id::native);
        }) == "");
}

TEST_CASE("native is what is chosen, and refused with a sentence elsewhere") {
  CHECK(on_ranks(2, [](auto& comm) {
          auto const chosen = explain<float>(comm, collective::all_reduce, 100'000);
          CHECK(chosen.algorithm == algorithm_id::native);
          CHECK(chosen.text.find("the library's own") != std::string::npos);
        }) == "");
  run_threads(2, [](auto& comm) {
    std::vector<int> v(3);
    CHECK_THROWS_WITH_AS(all_reduce(comm, v, sum{}, {.algorithm = algorithm_id::native}),
                         doctest::Contains("no collectives of its own"), error);
  });
}

TEST_CASE("native can be kept for calls that name it, which explain says") {
  ::setenv("TUTTI_NATIVE", "0", 1);
  CHECK(on_ranks(2, [](auto& comm) {
          auto const chosen = explain<float>(comm, collective::all_reduce, 100'000);
          CHECK(chosen.algorithm != algorithm_id::native);
          CHECK(chosen.text.find("; native is not chosen, because of TUTTI_NATIVE=0") != std::string::npos);
          auto const named = explain<float>(comm, collective::all_reduce, 10, {.algorithm = algorithm_id::native});
          CHECK(named.algorithm == algorithm_id::native);
          CHECK(named.text.find("TUTTI_NATIVE") == std::string::npos);
          std::vector<int> one(10, 1);
          all_reduce<native>(comm, one);
          all_reduce(comm, one);
          CHECK(one.back() == 4);
        }) == "");
  ::unsetenv("TUTTI_NATIVE");
}

TEST_CASE("ranks meet before native calls, unless rank 0 has TUTTI_MEET=0") {
  for (char const* const of_rank_0 : {"1", "0"}) {
    bool const meets = of_rank_0[0] == '1';
    ::setenv("TUTTI_MEET", world().rank() == 0 ? of_rank_0 : meets ? "0" : "1", 1);
    CHECK(on_ranks(3, [&](auto& comm) {
            auto& channels = comm.engine().transport();
            int const next = (comm.rank() + 1) % comm.size();
            auto const sent = channels.published(next, 0);
            std::vector<int> v{comm.rank(), 1};
            all_reduce<native>(comm, v);
            CHECK(v == std::vector{3, 3});
            std::vector<std::size_t> const sizes{1, 2, 3};
            std::vector<int> mine(sizes[static_cast<std::size_t>(comm.rank())], 7), all(6);
            gather_v<native>(comm, mine, all, sizes);
            CHECK((comm.rank() != 0 || all == std::vector<int>(6, 7)));
            CHECK((channels.published(next, 0) > sent) == meets);
            std::string const said =
                explain<int>(comm, collective::all_reduce, 2, {.algorithm = algorithm_id::native}).text;
            CHECK(said.find(meets ? "after a check by all ranks" : "without a check before") != std::string::npos);
            all_reduce<ring>(comm, v);
            CHECK(v == std::vector{9, 9});
          }) == "");
  }
  ::unsetenv("TUTTI_MEET");
}

TEST_CASE("native finds a mismatch, and blocks that do not fit, before the MPI would hang") {
  auto const thrown = [](auto f) { return on_ranks(3, [&](auto& comm) { f(comm); }); };
  std::string const counts = thrown([](auto& comm) {
    std::vector<float> same(4), v(comm.rank() == 1 ? 5 : 4);
    for (int i = 0; i < 5; ++i) all_reduce<native>(comm, same);
    all_reduce<native>(comm, v);
  });
  std::string const blocks = thrown([](auto& comm) {
    std::vector<std::size_t> const sizes{1, 2, 3};
    std::vector<int> mine(comm.rank() == 2 ? 4 : sizes[static_cast<std::size_t>(comm.rank())]), all(6);
    gather_v<native>(comm, mine, all, sizes);
  });
  // Only the first page of each is ever touched.
  std::size_t const bytes = (std::size_t{1} << 31) + 1;
  void* const all = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(all != MAP_FAILED);
  std::string const ends = thrown([&](auto& comm) {
    std::vector<std::size_t> const sizes(3, 1), begins{0, 1, bytes - 1};
    std::vector<char> mine(1);
    all_gather_v<native>(comm, mine, std::span(static_cast<char*>(all), bytes), sizes, begins);
  });
  ::munmap(all, bytes);
  INFO(counts);
  INFO(blocks);
  INFO(ends);
  CHECK(ends.find("counts the elements of a _v form in an int, which cannot hold 2147483649") != std::string::npos);
  CHECK(counts.find("rank 1 calls all_reduce of 5 float with sum (native)") != std::string::npos);
  CHECK(blocks.find("rank 2 sent 16 bytes where rank 0 expects 12") != std::string::npos);
}
