// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks with a device each, so that kernels wait for each other: named algorithms, packets, and ranks that are late,
// gone, or make different calls. Ranks are threads.
// labels: threads
// timeout: 300
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/device_conformance.hpp"
#include "support/device_counters.hpp"
#include "support/even_arrays.hpp"
#include "support/expect.hpp"
#include "support/sanitized.hpp"
#include "support/sharing_stand_in.hpp"
#include "support/temporary_folder.hpp"
#include "tutti/device/ipc/cuda_ipc.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

// f(ranks, comm) on ranks with a device each.
template <class F>
void on_own_devices(int ranks, F const& f) {
  run_threads(ranks, [&](auto& comm) {
    sharing_stand_in const device(comm.rank() + 1);
    cuda_ipc all(comm, device, 4096);
    f(all, comm);
  });
}

}  // namespace

TEST_CASE("what tutti chooses has the bits of the host") {
  for (int const p : {2, sanitized ? 3 : 5})
    on_own_devices(p, [](auto& ranks, auto& comm) {
      for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{5000}}) {
        check_reductions_of<float>(ranks, comm, n, sum{});
        check_movement_of<std::uint8_t>(ranks, comm, n);
      }
      check_reductions_of<bfloat16>(ranks, comm, 700, mean{});
      if constexpr (!sanitized) check_reductions_of<affine>(ranks, comm, 700, compose{});
    });
}

TEST_CASE_TEMPLATE("algorithms have the bits of the host", Algorithm, ring, binomial_tree, double_binary_tree,
                   recursive_doubling, recursive_halving, bruck, pairwise) {
  for (int const p : {2, 3})
    on_own_devices(p, [](auto& ranks, auto& comm) {
      for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{9000}})
        check_named<Algorithm, float>(ranks, comm, n, sum{});
    });
  if constexpr (!sanitized)
    on_own_devices(4, [](auto& ranks, auto& comm) { check_named<Algorithm, affine>(ranks, comm, 700, compose{}); });
}

TEST_CASE("one_shot and two_shot, by words, by packets and step by step") {
  on_own_devices(3, [](auto& ranks, auto& comm) {
    for (std::size_t const n : {std::size_t{1}, std::size_t{1000}, std::size_t{9000}})
      for (protocol const how : {protocol::automatic, protocol::staged}) {
        check_named<one_shot, float>(ranks, comm, n, sum{}, {.protocol = how});
        check_named<two_shot, float>(ranks, comm, n, sum{}, {.protocol = how});
      }
    device_conformance<float, std::remove_reference_t<decltype(ranks)>, std::remove_reference_t<decltype(comm)>,
                       one_shot>(ranks, comm, 100, 0, {.protocol = protocol::packet})
        .check_all_reduce(premultiplied_sum{0.3f});
  });
}

namespace {

template <class Word, int Words>
struct several_words {
  Word of[Words];

  friend bool operator==(several_words const&, several_words const&) = default;
};
struct add_words {
  static constexpr bool commutative = true;

  template <class Word, int Words>
  several_words<Word, Words> operator()(several_words<Word, Words> a, several_words<Word, Words> const& b) const {
    for (int k = 0; k < Words; ++k) a.of[k] = static_cast<Word>(a.of[k] + b.of[k]);
    return a;
  }
};

}  // namespace

TEST_CASE_TEMPLATE("as many elements as packets have room for, of sizes that do not divide it", T,
                   several_words<std::uint8_t, 3>, several_words<std::uint8_t, 11>, several_words<std::uint32_t, 3>) {
  on_own_devices(3, [](auto& ranks, auto& comm) {
    std::size_t const n = (std::size_t{16} << 10) / sizeof(T);
    T mine{}, expected{};
    for (auto& x : mine.of) x = static_cast<std::remove_reference_t<decltype(x)>>(comm.rank() + 1);
    for (auto& x : expected.of) x = 6;
    std::vector<T> values(n, mine);
    device_array<sharing_stand_in, T> const data(ranks.on(), n);
    for (int call = 0; call < 2; ++call) {
      ranks.on().copy({}, data.data(), values.data(), n * sizeof(T));
      all_reduce(ranks, data, add_words{}, {.protocol = protocol::packet});
      std::vector<T> got(n);
      ranks.on().copy({}, got.data(), data.data(), n * sizeof(T));
      ranks.on().wait({}, deadline::after(10s));
      expect(got == std::vector<T>(n, expected), "sums");
    }
    ranks.work().wait();
  });
}

TEST_CASE("numbers of calls and meetings grow beyond 2^32") {
  run_threads(3, [](auto& comm) { check_numbers_beyond_32_bits(comm, sharing_stand_in(comm.rank() + 1)); });
}

TEST_CASE("streams wait for no word in an all_reduce of ranks with a device each") {
  constexpr int p = 8;
  for (bool const own : {false, true})
    run_threads(p, [own](auto& comm) {
      sharing_stand_in const device(own ? comm.rank() + 1 : 0);
      cuda_ipc ranks(comm, device, 1 << 16);
      array const data = filled(device, 8000, 1);
      for (algorithm_id const by : {algorithm_id::one_shot, algorithm_id::two_shot}) {
        std::size_t const before = device.signalled;
        all_reduce(ranks, data, tutti::max{}, {.algorithm = by});
        // To each peer: unread, ready, and that it is read; from each: unread, ready, and ready is 0 again. two_shot: ready twice.
        std::size_t const words = (by == algorithm_id::one_shot ? 6 : 9) * (p - 1) + 2;
        expect(device.signalled - before == (own ? 0 : words),
               join({"operations of streams: ", device.signalled - before}));
      }
      ranks.work().wait();
    });
}

TEST_CASE("one_shot and two_shot with prologue, epilogue and other types, in pieces and by more and fewer blocks") {
  for (int const p : ranks_to_test({2, 3, 4, 5}))
    on_own_devices(p, [](auto& ranks, auto& comm) {
      auto const size = static_cast<float>(comm.size());
      for (std::size_t const n : {std::size_t{5}, std::size_t{9000}, std::size_t{700}, std::size_t{0}}) {
        array const data = filled(ranks.on(), n, 2), out = filled(ranks.on(), n, 7), counts = filled(ranks.on(), n, 1);
        for (algorithm_id const by : {algorithm_id::one_shot, algorithm_id::two_shot})
          all_reduce(ranks, data, out, fused{sum{}, scale{0.5f}, scale{3.0f}}, {.algorithm = by});
        expect(all_are(ranks.on(), out, 3 * size), "a fused sum");
        auto const count = [](float x, float(&values)[1]) {
          values[0] += 1;
          return x + values[0];
        };
        all_reduce(ranks, data, fused{sum{}, scale{0.5f}, with_arrays(count, counts.data())});
        expect(all_are(ranks.on(), data, size + 2) && all_are(ranks.on(), counts, 2), "an epilogue with an array");
      }
    });
}

TEST_CASE_TEMPLATE("one_shot and two_shot of arrays that begin anywhere", T, float, bfloat16) {
  for (int const p : ranks_to_test({2, 3}))
    on_own_devices(p, [](auto& ranks, auto& comm) {
      std::size_t const n = 5000;
      for (std::size_t const begin : {std::size_t{1}, std::size_t{3}})
        for (algorithm_id const by : {algorithm_id::one_shot, algorithm_id::two_shot}) {
          std::vector<T> const mine = uneven_values<T>(comm.rank(), n + begin);
          std::vector<T> expected(n), got(n + begin);
          all_reduce(comm, std::span(mine).subspan(begin), expected, sum{}, {.algorithm = algorithm_id::one_shot});
          device_array<sharing_stand_in, T> const data(ranks.on(), n + begin);
          ranks.on().copy({}, data.data(), mine.data(), mine.size() * sizeof(T));
          all_reduce(ranks, std::span<T>(data.data(), n + begin).subspan(begin), sum{}, {.algorithm = by});
          ranks.on().copy({}, got.data(), data.data(), got.size() * sizeof(T));
          ranks.on().wait({}, deadline::after(10s));
          expect(std::ranges::equal(std::span<T const>(got).subspan(begin), expected, same_bits<T>), "sums");
          expect(same_bits<T>(got[begin - 1], mine[begin - 1]), "what is before the array");
        }
      ranks.work().wait();
    });
}

TEST_CASE("two_shot through rooms of a few elements, and through none") {
  run_threads(5, [](auto& comm) {
    sharing_stand_in const device(comm.rank() + 1);
    cuda_ipc few(comm, device, 1024), none(comm, device, 128);
    check_named<two_shot, affine>(few, comm, 700, compose{});
    array const data = filled(device, 100, 1);
    expect_error(error_of([&] { all_reduce(none, data, sum{}, {.algorithm = algorithm_id::two_shot}); }),
                 error_code::bad_argument, "pass a larger arena to cuda_ipc, or {.arena = ...} to tutti::on");
    auto const rows = by_rows(sum{}, data.size(), rms_norm{});
    for (algorithm_id const by : {algorithm_id::one_shot, algorithm_id::two_shot})
      expect_error(error_of([&] { all_reduce(none, data, rows, {.algorithm = by}); }), error_code::bad_argument,
                   "a row of 400 bytes does not fit its part of an arena of 128");
  });
}

TEST_CASE("a rank that does not come to a meeting is named, and nothing is written") {
  for (algorithm_id const by : {algorithm_id::one_shot, algorithm_id::two_shot})
    on_own_devices(3, [by](auto& ranks, auto& comm) {
      array const data = filled(ranks.on(), 20000, 1), out = filled(ranks.on(), 20000, 7);
      barrier(ranks);
      error const e = error_of([&] {
        if (comm.rank() != 1) all_reduce(ranks, data, out, sum{}, {.algorithm = by, .timeout = 2s});
        for (;; std::this_thread::sleep_for(1ms)) ranks.work().wait();
      });
      expect_error(e, error_code::timeout, "rank 1 has not arrived: it is at or after call #1, barrier");
      expect(all_are(ranks.on(), out, 7), "nothing was written");
    });
}

TEST_CASE("ranks that replay different graphs write nothing, and end") {
  for (std::size_t const n : {std::size_t{100}, std::size_t{9000}})  // by packets, by shots
    on_own_devices(2, [n](auto& ranks, auto& comm) {
      array const data = filled(ranks.on(), n, 1), out = filled(ranks.on(), n, 7);
      stand_in_stream stream;
      auto const captured = [&](auto const& op) {
        stream.begin_capture();
        all_reduce(ranks, data, out, op, {.stream = &stream, .timeout = 300ms});
        return stream.end_capture();
      };
      auto const sums = captured(sum{}), largest = captured(tutti::max{});
      stand_in_stream::launch(comm.rank() == 0 ? sums : largest);
      expect_error(error_of([&] { ranks.work(&stream).wait(); }), error_code::timeout, "did not complete within");
      ranks.on().wait(&stream, deadline::after(10s));
      expect(all_are(ranks.on(), out, 7), "nothing was written");
    });
}

TEST_CASE("calls of all kinds follow each other, on two streams by turns") {
  on_own_devices(4, [](auto& ranks, auto&) {
    stand_in_stream streams[2];
    array const data = filled(ranks.on(), 1500, 1), few = filled(ranks.on(), 100, 1);
    for (int i = 0; i < 50; ++i) {
      device_options<sharing_stand_in> const how{.stream = &streams[i % 2]};
      all_reduce<list<ring, double_binary_tree>>(
          ranks, data, tutti::max{},
          {.stream = how.stream, .algorithm = i % 3 == 0 ? algorithm_id::ring : algorithm_id::double_binary_tree});
      all_reduce(ranks, few, tutti::max{}, how);
      broadcast(ranks, data, i % 4, how);
    }
    all_reduce<ring>(ranks, data, sum{}, {.stream = &streams[1]});
    ranks.work(&streams[1]).wait();
    expect(all_are(ranks.on(), data, 4) && all_are(ranks.on(), few, 1), "the sum of ones");
  });
}

TEST_CASE("captured calls can be replayed, between others") {
  on_own_devices(3, [](auto& ranks, auto&) {
    stand_in_stream stream;
    array const data = filled(ranks.on(), 3000, 1), few = filled(ranks.on(), 10, 1);
    device_options<sharing_stand_in> const how{.stream = &stream};
    all_reduce<ring>(ranks, data, tutti::max{}, how);
    stream.begin_capture();
    all_reduce<ring>(ranks, data, sum{}, how);
    all_reduce(ranks, few, sum{}, how);
    auto const graph = stream.end_capture();
    stand_in_stream::launch(graph);
    stand_in_stream::launch(graph);
    ranks.work(&stream).wait();
    all_reduce(ranks, few, tutti::max{}, how);
    stand_in_stream::launch(graph);
    ranks.work(&stream).wait();
    expect(all_are(ranks.on(), data, 27) && all_are(ranks.on(), few, 27), "3 to the 3rd");
  });
}

TEST_CASE("a rank that leaves after its part of a replayed graph is not missing while another is late") {
  on_own_devices(3, [](auto& ranks, auto& comm) {
    stand_in_stream stream;
    array const data = filled(ranks.on(), 1000, 1);
    device_options<sharing_stand_in> const how{.stream = &stream, .timeout = 20s};
    reduce<binomial_tree>(ranks, data, sum{}, 0, how);
    ranks.work(&stream).wait();
    stream.begin_capture();
    reduce<binomial_tree>(ranks, data, sum{}, 0, how);
    auto const graph = stream.end_capture();
    barrier(comm);
    if (comm.rank() == 2) std::this_thread::sleep_for(2s);
    stand_in_stream::launch(graph);
    ranks.work(&stream).wait();
    expect(all_are(ranks.on(), data, comm.rank() == 0 ? 5 : 1), "the sums");
  });
}

TEST_CASE("a call that needs more memory is refused in a capture, before others hear of it") {
  on_own_devices(2, [](auto& ranks, auto& comm) {
    stand_in_stream stream;
    array const data = filled(ranks.on(), 20000, 1);
    device_options<sharing_stand_in> const how{.stream = &stream};
    stream.begin_capture();
    expect_error(error_of([&] { reduce<two_shot>(ranks, data, sum{}, 0, how); }), error_code::bad_argument,
                 "is being captured into a graph, and needs memory");
    expect(stream.end_capture().empty(), "nothing was captured");
    reduce<two_shot>(ranks, data, sum{}, 0, how);
    stream.begin_capture();
    reduce<two_shot>(ranks, data, sum{}, 0, how);
    auto const graph = stream.end_capture();
    stand_in_stream::launch(graph);
    ranks.work(&stream).wait();
    expect(all_are(ranks.on(), data, comm.rank() == 0 ? 3 : 1), "the call is captured once it has its memory");
  });
}

TEST_CASE("no rank allocates memory while kernels of others wait for it") {
  run_threads(3, [](auto& comm) {
    sharing_stand_in device(comm.rank() + 1);
    cuda_ipc ranks(comm, device, 4096);
    array const data = filled(device, 20000, 1);
    barrier(comm);
    device.allocates_when_idle = true;
    if (comm.rank() == 1) std::this_thread::sleep_for(200ms);  // so that the kernels of the others would wait
    reduce<two_shot>(ranks, data, sum{}, 0, {.timeout = 10s});
    ranks.work().wait();
    expect(comm.rank() != 0 || all_are(device, data, 3), "the sum of ones");
    barrier(comm);
    device.allocates_when_idle = false;
  });
}

TEST_CASE("a rank that does not come is named, and kernels that wait for it end") {
  for (std::size_t const n : {std::size_t{100}, std::size_t{20000}})
    on_own_devices(3, [&](auto& ranks, auto& comm) {
      array const data = filled(ranks.on(), n, 1), out = filled(ranks.on(), n, 7);
      barrier(ranks);
      if (comm.rank() == 1) {
        error_of([&] {
          for (;; std::this_thread::sleep_for(1ms)) ranks.work().wait();
        });
        return;
      }
      if (n == 100) all_reduce(ranks, data, out, sum{}, {.timeout = 2s});
      else all_reduce<ring>(ranks, data, out, sum{}, {.timeout = 2s});
      error const e = error_of([&] { ranks.work().wait(); });
      expect_error(e, error_code::timeout, "all_reduce of");
      expect_error(e, error_code::timeout, "rank 1 has not arrived: it is at or after call #1, barrier");
      expect(e.peer() == 1, "who is missing");
      if (n == 100) expect(all_are(ranks.on(), out, 7), "packets have written nothing");
      expect_error(error_of([&] { all_reduce<ring>(ranks, data); }), error_code::timeout, "has not arrived");
      ranks.on().wait({}, deadline::after(10s));
    });
}

TEST_CASE("buffers of calls that have not ended are released when these have") {
  on_own_devices(2, [](auto& ranks, auto& comm) {
    if (comm.rank() == 0) {
      array const data = filled(ranks.on(), 20000, 1), few = filled(ranks.on(), 100, 1);
      all_reduce<ring>(ranks, data, sum{}, {.timeout = 2s});
      all_reduce(ranks, few);
      ranks.on().copy({}, data.data() + 10000, data.data(), 10000 * sizeof(float));
    }
    expect_error(error_of([&] {
                   for (;; std::this_thread::sleep_for(1ms)) ranks.work().wait();
                 }),
                 error_code::timeout, "rank 1 has not arrived");
  });
}

TEST_CASE("ranks that disagree all hear what was called") {
  on_own_devices(3, [](auto& ranks, auto& comm) {
    array const data = filled(ranks.on(), 100, 1), out = filled(ranks.on(), 100, 7);
    error const e = error_of([&] {
      if (comm.rank() == 2) all_reduce<ring>(ranks, data, out);
      else all_reduce(ranks, data, out);
      ranks.work().wait();
    });
    expect_error(e, error_code::mismatch, "all_reduce of 100 float with sum (ring, staged)");
    expect_error(e, error_code::mismatch, "all_reduce of 100 float with sum (one_shot, packet)");
    expect(all_are(ranks.on(), out, 7), "nothing was written");
  });
}

TEST_CASE("the tuning table says up to which size a call goes which way") {
  temporary_folder const folder;
  std::string const file = (folder.path() / "table").string();
  std::ofstream(file) << tuning_version << "\ndevice processes packets 40\ndevice processes one_shot_of_2 100\n"
                      << "device processes one_shot_of_4 200\n";
  ::setenv("TUTTI_TUNING", file.c_str(), 1);
  for (auto const& [p, floats, way] :
       {std::tuple{2, 10, "(one_shot, packet)"}, std::tuple{2, 11, "(one_shot)"}, std::tuple{2, 26, "(two_shot)"},
        std::tuple{3, 26, "(one_shot)"}, std::tuple{3, 51, "(two_shot)"}})
    on_own_devices(p, [&](auto& ranks, auto& comm) {
      array const data = filled(ranks.on(), static_cast<std::size_t>(floats), 1);
      expect_error(error_of([&] {
                     if (comm.rank() == 0) all_reduce(ranks, data, tutti::max{});
                     else all_reduce(ranks, data);
                     ranks.work().wait();
                   }),
                   error_code::mismatch, join({"all_reduce of ", floats, " float with sum ", way}));
    });
  run_threads(3, [&](auto& comm) {
    sharing_stand_in const shared;
    cuda_ipc ranks(comm, shared, 4096);
    expect(ranks.explain().find("all_reduce above 524288 bytes uses two_shot") != std::string::npos,
           "the table's limits are not those of ranks that share a device");
  });
  ::unsetenv("TUTTI_TUNING");
}

TEST_CASE("what cannot be had is refused before anything is launched") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const shared, own(comm.rank() + 1);
    array const data = filled(own, 100, 1);
    {
      cuda_ipc ranks(comm, shared, 4096);
      expect_error(error_of([&] { all_reduce<ring>(ranks, data); }), error_code::bad_argument,
                   "ring does not serve all_reduce among processes on devices");
      expect_error(error_of([&] { all_reduce<one_shot>(ranks, data, sum{}, {.protocol = protocol::packet}); }),
                   error_code::bad_argument, "protocol packet does not serve this call");
      all_reduce<one_shot>(ranks, data);
      all_reduce<two_shot>(ranks, data);
      ranks.work().wait();
      expect(all_are(own, data, 4), "what can be had goes by words");
    }
    cuda_ipc ranks(comm, own, 4096);
    expect(ranks.explain().find("every rank has a device of its own") != std::string::npos, "explain");
    expect_error(error_of([&] { all_reduce(ranks, data, sum{}, {.algorithm = algorithm_id::ring}); }),
                 error_code::bad_argument, "ring does not serve all_reduce");
    expect_error(error_of([&] { all_reduce<ring>(ranks, data, sum{}, {.protocol = protocol::packet}); }),
                 error_code::bad_argument, "protocol packet does not serve this call");
    array const many = filled(own, 9000, 1);
    expect_error(error_of([&] { all_reduce<one_shot>(ranks, many, sum{}, {.protocol = protocol::packet}); }),
                 error_code::bad_argument,
                 "packets of 36000 bytes were asked for, but among 2 ranks they have at most 16384");
    all_reduce<ring>(ranks, data);
    ranks.work().wait();
    expect(all_are(own, data, 8), "and all goes on");
  });
}
