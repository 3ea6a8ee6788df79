// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that share device memory: what they must agree on, what they may do differently, and calls that one of them
// cannot launch.
// labels: threads
#include "tutti/device/ipc/calls.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "support/even_arrays.hpp"
#include "support/expect.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/device/ipc/cuda_ipc.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

void fill(sharing_stand_in const& on, std::span<float> to, float value) {
  std::vector<float> const values(to.size(), value);
  on.copy({}, to.data(), values.data(), values.size() * sizeof(float));
  on.wait({}, deadline::after(std::chrono::seconds(10)));
}
std::vector<float> values_of(sharing_stand_in const& on, std::span<float const> data) {
  std::vector<float> out(data.size());
  on.copy({}, out.data(), data.data(), data.size() * sizeof(float));
  on.wait({}, deadline::after(std::chrono::seconds(10)));
  return out;
}
// n of 1, n of 2, ...
std::vector<float> blocks_of(int ranks, std::size_t n = 100) {
  std::vector<float> out;
  for (int q = 0; q < ranks; ++q) out.insert(out.end(), n, static_cast<float>(q + 1));
  return out;
}

}  // namespace

TEST_CASE("registered memory may be passed as any other") {
  constexpr std::size_t n = 100;
  for (int const p : {2, 3})
    run_threads(p, [p](auto& comm) {
      sharing_stand_in const device;
      cuda_ipc ranks(comm, device, 1024);
      auto const r = static_cast<std::size_t>(comm.rank());
      auto const shared = ranks.template allocate<float>(n * static_cast<std::size_t>(p)),
                 single = ranks.template allocate<float>(n);
      array const all = filled(device, n * static_cast<std::size_t>(p), 0), own = filled(device, n, 0);
      auto const check = [&](std::string const& what, std::span<float const> got, std::vector<float> const& expected) {
        expect(values_of(device, got) == expected, what);
      };
      for (bool const symmetric : {false, true}) {
        fill(device, single, 1);
        reduce(ranks, single, sum{}, 0, {.symmetric = symmetric});
        check("reduce in place at the root", single, std::vector<float>(n, r == 0 ? static_cast<float>(p) : 1));
      }
      fill(device, shared.subspan(r * n, n), static_cast<float>(r + 1));
      all_gather(ranks, shared.subspan(r * n, n), all);
      check("all_gather of another place on each rank", std::span<float const>(all.data(), all.size()), blocks_of(p));
      gather(ranks, shared.subspan(r * n, n), shared, p - 1);
      if (comm.rank() == p - 1) check("gather in place at the root", shared, blocks_of(p));
      fill(device, single, 1);
      fill(device, std::span(own.data(), n), 1);
      if (r == 0) all_reduce(ranks, single, single);
      else all_reduce(ranks, own, own);
      check("all_reduce of registered memory on one rank alone",
            r == 0 ? std::span<float const>(single) : std::span<float const>(own.data(), n),
            std::vector<float>(n, static_cast<float>(p)));
    });
}

TEST_CASE("a symmetric call copies nothing to the arena") {
  constexpr std::size_t n = 5000;
  for (bool const own : {false, true})
    run_threads(3, [own](auto& comm) {
      sharing_stand_in const device(own ? comm.rank() + 1 : 0);
      cuda_ipc ranks(comm, device, 4096);  // too small for the whole message
      auto const in = ranks.template allocate<float>(3 * n), out = ranks.template allocate<float>(3 * n);
      auto const mine = in.subspan(n, n);
      for (int turn = 0; turn < 3; ++turn) {
        fill(device, mine, static_cast<float>(comm.rank() + 1));
        for (auto const by : {algorithm_id::one_shot, algorithm_id::two_shot}) {
          all_reduce(ranks, mine, out.subspan(7, n), sum{}, {.algorithm = by, .symmetric = true});
          expect(values_of(device, out.subspan(7, n)) == std::vector<float>(n, 6), "all_reduce");
        }
        all_gather(ranks, mine, out, {.symmetric = true});
        expect(values_of(device, out) == blocks_of(3, n), "all_gather");
        gather(ranks, mine, out, 1, {.symmetric = true});
        if (comm.rank() == 1) expect(values_of(device, out) == blocks_of(3, n), "gather");
        all_reduce(ranks, mine, sum{}, {.algorithm = algorithm_id::two_shot, .symmetric = true});
        expect(values_of(device, mine) == std::vector<float>(n, 6), "all_reduce in place");
        all_reduce(ranks, mine, sum{}, {.algorithm = algorithm_id::one_shot, .symmetric = true});
        expect(values_of(device, mine) == std::vector<float>(n, 18), "all_reduce in place, by the arena");
        broadcast(ranks, mine, 2, {.symmetric = true});
      }
      array const elsewhere = filled(device, n, 1);
      expect_error(error_of([&] { all_reduce(ranks, elsewhere, out.first(n), sum{}, {.symmetric = true}); }),
                   error_code::bad_argument, "a symmetric all_reduce got memory that the ranks have not registered");
    });
}

TEST_CASE("symmetric calls of different places hear which") {
  constexpr std::size_t n = 100;
  auto const said = [](auto const& call) {
    std::string out;
    run_threads(2, [&](auto& comm) {
      sharing_stand_in const device;
      cuda_ipc ranks(comm, device, 1024);
      [[maybe_unused]] auto const some = ranks.template allocate<float>(10);
      auto const in = ranks.template allocate<float>(3 * n);
      error const e = error_of([&] {
        call(ranks, in);
        ranks.work().wait();
      });
      expect_error(e, error_code::mismatch, "ranks disagree");
      if (comm.rank() == 0) out = e.what();
    });
    return out;
  };
  std::string const places = said([](auto& ranks, auto in) {
    all_reduce(ranks, in.subspan(ranks.rank() == 0 ? 0 : n, n), in.last(n), sum{}, {.symmetric = true});
  });
  CHECK(places.find("(one_shot, direct), symmetric, from byte 0 of registered buffer #1") != std::string::npos);
  CHECK(places.find("(one_shot, direct), symmetric, from byte 400 of registered buffer #1") != std::string::npos);
  std::string const results = said([](auto& ranks, auto in) {
    all_reduce(ranks, in.first(n), in.subspan(ranks.rank() == 0 ? n : 2 * n, n), sum{},
               {.algorithm = algorithm_id::two_shot, .symmetric = true});
  });
  CHECK(results.find("from byte 0 of registered buffer #1 to byte 400 of registered buffer #1") != std::string::npos);
  CHECK(results.find("from byte 0 of registered buffer #1 to byte 800 of registered buffer #1") != std::string::npos);
  std::string const promise = said([](auto& ranks, auto in) {
    all_reduce(ranks, in.first(n), in.last(n), sum{}, {.symmetric = ranks.rank() == 0});
  });
  CHECK(promise.find("(one_shot, direct), symmetric") != std::string::npos);
  CHECK(promise.find("all_reduce of 100 float with sum (one_shot)") != std::string::npos);
}

TEST_CASE("what one rank cannot launch all ranks hear of, long before their time is up") {
  constexpr std::size_t n = 100;
  for (bool const own : {false, true})
    for (std::size_t const count : {n, std::size_t{5000}})
      run_threads(3, [&](auto& comm) {
        sharing_stand_in device(own ? comm.rank() + 1 : 0);
        cuda_ipc ranks(comm, device, 4096);
        array const data = filled(device, count, 1);
        all_reduce(ranks, data);
        ranks.work().wait();
        barrier(comm);  // all have seen its end
        device.refuses.launching = comm.rank() == 1;
        error const e = error_of([&] {
          all_reduce(ranks, data);
          ranks.work().wait();
        });
        expect_error(e, error_code::system, "the stand-in refuses to launch a kernel");
        if (comm.rank() != 1) expect(e.peer() == 1, "who could not");
        expect_error(error_of([&] { barrier(ranks); }), error_code::system, "refuses to launch");
        expect(all_are(device, data, 3), "nothing was written");
      });
}
