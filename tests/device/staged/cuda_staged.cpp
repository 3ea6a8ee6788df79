// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on device memory through the host, among ranks that are threads, each with a device of its own.
// labels: threads
// timeout: 600
#include "tutti/device/staged/cuda_staged.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/device_conformance.hpp"
#include "support/device_queues.hpp"
#include "support/expect.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

std::vector<std::size_t> counts_for(int ranks) {
  auto const p = static_cast<std::size_t>(ranks);
  if (sanitized) return {0, p - 1, p + 1, 4099};
  return {0, 1, p - 1, p, p + 1, 1000, 4099};
}

// f(ranks, comm) on each of p ranks, whose devices run late in different ways.
template <class F>
void on_staged(int p, staging const& how, F const& f) {
  CAPTURE(p);
  run_threads(p, [&](auto& comm) {
    device_queues const on(static_cast<unsigned>(97 * p + comm.rank()));
    cuda_staged ranks(comm, on, how);
    f(ranks, comm);
  });
}

template <class T, class Op>
void check_reductions(Op const& op, std::vector<int> const& rank_counts) {
  for (int const p : ranks_to_test(rank_counts)) {
    auto const counts = std::is_same_v<T, float> ? counts_for(p) : std::vector<std::size_t>{0, 3, 1500};
    for (staging const& how : {staging{.slice = 2048, .slices = 3}, staging{.slice = 64 << 10}})
      on_staged(p, how, [&](auto& ranks, auto& comm) {
        for (std::size_t const n : counts)
          for (algorithm_id const by : {algorithm_id::one_shot, algorithm_id::two_shot})
            device_conformance<T, std::remove_reference_t<decltype(ranks)>, std::remove_reference_t<decltype(comm)>>(
                ranks, comm, n, p / 2, {.stream = ranks.on().make_stream(), .algorithm = by})
                .check_reductions(op);
      });
  }
}

std::string text(error const& e) { return e.what(); }

}  // namespace

TEST_CASE("reductions have the bits of the host: float") { check_reductions<float>(sum{}, {1, 2, 3, 4, 5, 8}); }
TEST_CASE("reductions have the bits of the host: bfloat16 with an epilogue") {
  check_reductions<bfloat16>(mean{}, {1, 3, 8});
}
TEST_CASE("reductions have the bits of the host: 8 bits with a prologue") {
  if constexpr (!sanitized) check_reductions<float8_e4m3>(premultiplied_sum{0.3f}, {1, 4});
}
TEST_CASE("reductions have the bits of the host: not commutative") {
  if constexpr (!sanitized) check_reductions<affine>(compose{}, {2, 3, 5});
}
TEST_CASE("reductions have the bits of the host: a user's struct") { check_reductions<summary>(summarise{}, {3}); }

TEST_CASE_TEMPLATE("blocks come to where they belong", T, std::uint8_t, summary) {
  for (int const p : ranks_to_test({1, 2, 3, 5}))
    for (staging const& how : {staging{.slice = 1024, .slices = 3}, staging{.slice = 64 << 10}})
      on_staged(p, how, [&](auto& ranks, auto& comm) {
        for (std::size_t const n : counts_for(p))
          device_conformance<T, std::remove_reference_t<decltype(ranks)>, std::remove_reference_t<decltype(comm)>>(
              ranks, comm, n, p - 1, {.stream = ranks.on().make_stream()})
              .check_movement();
      });
}

namespace {

// Algorithms that a call can name by their type.
template <class... Algorithms>
void check_all_named(list<Algorithms...>, int p, staging const& how) {
  on_staged(p, how, [](auto& ranks, auto& comm) {
    using staged = std::remove_reference_t<decltype(ranks)>;
    static_assert(staged::template has_algorithm<one_shot, collective::scan> &&
                  staged::template has_algorithm<two_shot, collective::reduce> &&
                  !staged::template has_algorithm<two_shot, collective::broadcast> &&
                  !staged::template has_algorithm<ring, collective::all_reduce>);
    for (std::size_t const n : {std::size_t{1}, std::size_t{1500}}) {
      (check_named<Algorithms, affine>(ranks, comm, n, compose{}, {.stream = ranks.on().make_stream()}), ...);
    }
  });
}

}  // namespace

TEST_CASE("algorithms that are named by their types have the bits of the host") {
  for (int const p : {1, 2, 3}) check_all_named(algorithms{}, p, {.slice = 2048});
  on_staged(3, {.slice = 64 << 10}, [](auto& ranks, auto& comm) {
    auto const& on = ranks.on();
    device_array<device_queues, float> data(on, 100);
    std::vector<float> const ones(100, 1);
    std::vector<float> sums(100);
    on.copy(0, data.data(), ones.data(), 100 * sizeof(float));
    using either = list<one_shot, ring, two_shot>;
    all_reduce<either>(ranks, data, sum{}, {.algorithm = algorithm_id::one_shot});
    all_reduce<either>(ranks, data, sum{}, {.algorithm = algorithm_id::two_shot});
    on.copy(0, sums.data(), data.data(), 100 * sizeof(float));
    on.wait(0, deadline::after(10s));
    expect(sums == std::vector<float>(100, 9), "3 times 3");
    for (auto const& [words, call] :
         {std::pair<char const*, std::function<void()>>{
              "cuda_staged has no all_reduce with ring",
              [&] { all_reduce<either>(ranks, data, sum{}, {.algorithm = algorithm_id::ring}); }},
          {"automatic is none of the listed algorithms", [&] { all_reduce<either>(ranks, data); }},
          {"the call names one_shot by its type and two_shot in its options",
           [&] { all_reduce<one_shot>(ranks, data, sum{}, {.algorithm = algorithm_id::two_shot}); }}})
      expect_error(error_of(call), error_code::bad_argument, words);
    barrier(comm);
  });
}

TEST_CASE("results of another type, in slices") {
  on_staged(3, {.slice = 1024}, [](auto& ranks, auto& comm) {
    std::size_t const n = 1000;
    auto const& on = ranks.on();
    std::vector<float> in(n);
    for (std::size_t i = 0; i < n; ++i) in[i] = static_cast<float>(i % 50) + static_cast<float>(comm.rank());
    device_array<device_queues, float> from(on, n);
    device_array<device_queues, half> to(on, n);
    on.copy(0, from.data(), in.data(), n * sizeof(float));
    all_reduce(ranks, from, to, fused{sum{}, unchanged{}, scale{0.5f}}, {.algorithm = algorithm_id::two_shot});
    std::vector<half> halves(n);
    on.copy(0, halves.data(), to.data(), n * sizeof(half));
    on.wait(0, deadline::after(10s));
    for (std::size_t i = 0; i < n; ++i)
      expect(halves[i].bits == half(0.5f * (3 * static_cast<float>(i % 50) + 3)).bits, "a wrong half");
  });
}

TEST_CASE("slices are on their way at once, and no byte goes twice") {
  on_staged(3, {.slice = 3 * 1024, .slices = 4}, [](auto& ranks, auto&) {
    constexpr std::size_t slices = 20, n = slices * 3 * 1024 / sizeof(float);
    auto const& on = ranks.on();
    device_array<device_queues, float> data(on, n);
    std::vector<float> const zeros(n);
    on.copy(0, data.data(), zeros.data(), n * sizeof(float));
    std::size_t const before = on.jobs().size();
    all_reduce(ranks, data, sum{}, {.algorithm = algorithm_id::two_shot});
    std::size_t down = 0, up = 0, kernels = 0, ahead = 0, max_ahead = 0;
    for (std::size_t i = before; i < on.jobs().size(); ++i) {
      auto const [kind, bytes] = on.jobs()[i];
      if (kind == device_job::down) down += bytes;
      if (kind == device_job::up) up += bytes;
      // A whole slice is the first to be copied down and the last to be copied up.
      if (kind == device_job::down && bytes == 3 * 1024) max_ahead = std::max(max_ahead, ++ahead);
      if (kind == device_job::up && bytes == 3 * 1024) --ahead;
      kernels += kind == device_job::kernel;
    }
    expect(down == slices * (3 * 1024 + 1024), "the message comes down once, and the result of this rank");
    expect(up == slices * (2 * 1024 + 3 * 1024), "what peers sent goes up once, and the result");
    expect(kernels == slices, "a kernel a slice");
    expect(max_ahead == 4, "four slices on their way");
    on.wait(0, deadline::after(10s));
  });
}

TEST_CASE("calls follow each other and those of the communicator on a stream that runs late") {
  on_staged(4, {.slice = 4096}, [](auto& ranks, auto& comm) {
    auto const& on = ranks.on();
    int const stream = on.make_stream();
    std::size_t const n = 3000;
    std::vector<std::int64_t> ones(n, 1), out(n);
    device_array<device_queues, std::int64_t> data(on, n);
    on.copy(stream, data.data(), ones.data(), n * sizeof(std::int64_t));
    std::vector<std::int64_t> host(5, 1);
    work started = all_reduce(async(comm), host);
    for (int call = 0; call < 5; ++call) all_reduce(ranks, data, sum{}, {.stream = stream});
    all_reduce(comm, ones);
    on.copy(stream, out.data(), data.data(), n * sizeof(std::int64_t));
    on.wait(stream, deadline::after(10s));
    started.wait();
    expect(out == std::vector<std::int64_t>(n, 1024) && host[0] == 4 && ones[7] == 4, "a wrong sum");
  });
}

TEST_CASE("ranks that disagree all get both calls, and no output is touched") {
  for (error const& e : errors_of(3, [](auto& comm) {
         device_queues const on;
         cuda_staged ranks(comm, on, {.slice = 1024});
         std::size_t const n = comm.rank() == 1 ? 2000 : 1000;
         std::vector<float> const values(n, 1);
         std::vector<float> out(n, 5);
         device_array<device_queues, float> from(on, n), to(on, n);
         on.copy(0, from.data(), values.data(), n * sizeof(float));
         on.copy(0, to.data(), out.data(), n * sizeof(float));
         try {
           all_reduce(ranks, from, to);
         } catch (error const&) {
           on.copy(0, out.data(), to.data(), n * sizeof(float));
           on.wait(0, deadline::after(10s));
           expect(out == std::vector<float>(n, 5), "the output was touched");
           throw;
         }
       })) {
    INFO(text(e));
    CHECK(e.code() == error_code::mismatch);
    CHECK(contains(e, "rank 1 calls all_reduce of 2000 float with sum"));
    CHECK(contains(e, "calls all_reduce of 1000 float with sum"));
    CHECK(contains(e, "cuda_staged.cpp"));
  }
  for (error const& e : errors_of(3, [](auto& comm) {
         device_queues const on;
         cuda_staged ranks(comm, on);
         device_array<device_queues, float> data(on, 10);
         if (comm.rank() == 2) all_reduce(ranks, data, tutti::max{});
         else all_reduce(ranks, data);
       })) {
    INFO(text(e));
    CHECK(e.code() == error_code::mismatch);
    CHECK(contains(e, "rank 2 calls all_reduce of 10 float with max"));
  }
  for (error const& e : errors_of(3, [](auto& comm) {
         device_queues const on;
         cuda_staged ranks(comm, on);
         std::vector<std::size_t> const sizes{1, 2, 3};
         std::size_t const own = comm.rank() == 2 ? 4 : sizes[static_cast<std::size_t>(comm.rank())];
         device_array<device_queues, float> from(on, own), to(on, 6);
         gather_v(ranks, from, to, sizes);
         barrier(ranks);
       })) {
    INFO(text(e));
    CHECK(e.code() == error_code::mismatch);
    CHECK(contains(e, "rank 2 sent 16 bytes where rank 0 expects 12"));
  }
}

TEST_CASE("a rank that does not come is named") {
  auto const errors = errors_of(3, [](auto& comm) {
    device_queues const on;
    cuda_staged ranks(comm, on);
    device_array<device_queues, float> data(on, 10);
    if (comm.rank() == 1) std::this_thread::sleep_for(1500ms);
    all_reduce(ranks, data, sum{}, {.timeout = 300ms});
  });
  for (error const& e : errors) {
    INFO(text(e));
    CHECK(e.code() == error_code::timeout);
    CHECK(contains(e, "all_reduce of 10 float with sum (one_shot, staged)"));
    CHECK(contains(e, "rank 1 has not arrived"));
  }
}

TEST_CASE("a device that fails in the middle, or stands still, ends the call on all ranks") {
  auto const run = [](bool stands_still) {
    return errors_of(3, [=](auto& comm) {
      device_queues const on;
      std::size_t const n = 5000;
      device_array<device_queues, float> data(on, n);  // the device still uses it when it continues
      cuda_staged ranks(comm, on, {.slice = 1024});
      barrier(comm);
      if (comm.rank() == 1) on.broken() = {.copies = stands_still ? -1 : 20, .stalled = stands_still};
      try {
        all_reduce(ranks, data, sum{}, {.timeout = 2s});
      } catch (...) {
        on.broken() = {};
        throw;
      }
    });
  };
  auto const failed = run(false), stalled = run(true);
  for (std::size_t r = 0; r < 3; ++r) {
    INFO(text(failed[r]));
    INFO(text(stalled[r]));
    CHECK(failed[r].code() == (r == 1 ? error_code::system : error_code::rank_left));
    CHECK(contains(failed[r], r == 1 ? "a copy failed" : "rank 1 gave up"));
    CHECK((stalled[r].code() == error_code::timeout || stalled[r].code() == error_code::rank_left));
  }
  CHECK(contains(stalled[1], "the copies on the device of rank 1 did not complete within 2 s"));
}

TEST_CASE("what cannot be had is refused: on all ranks, where others would wait") {
  for (error const& e : errors_of(3, [](auto& comm) {
         device_queues const on(1, {.allocations = comm.rank() == 1 ? 5 : -1});
         cuda_staged(comm, on);
       })) {
    CHECK(e.code() == error_code::system);
    CHECK(contains(e, "rank 1 cannot stage memory of its device: "));
    CHECK(contains(e, "is used up"));
    CHECK(e.way_out() == "ask for fewer or smaller slices, or free memory there");
  }
  for (error const& e : errors_of(2, [](auto& comm) {
         device_queues const on;
         cuda_staged(comm, on, {.slice = comm.rank() == 1 ? 1024u : 2048u});
       }))
    CHECK(contains(e, "ranks ask for 4 slices of"));
  for (error const& e : errors_of(2, [](auto& comm) {
         device_queues const on;
         cuda_staged(comm, on, {.slices = 2});
       }))
    CHECK(contains(e, "cuda_staged cannot use 2 slices"));
  on_staged(2, {.slice = 32}, [](auto& ranks, auto&) {
    auto const& on = ranks.on();
    device_array<device_queues, summary> data(on, 10);
    expect_error(error_of([&] { all_reduce(ranks, data, summarise{}); }), error_code::bad_argument,
                 "one element of 24 bytes for each of 2 ranks does not fit a slice of 32");
    device_array<device_queues, float> numbers(on, 10);
    expect_error(error_of([&] { all_reduce(ranks, numbers, sum{}, {.algorithm = algorithm_id::ring}); }),
                 error_code::bad_argument, "cuda_staged has no all_reduce with ring");
    on.broken().captured = true;
    expect_error(error_of([&] { all_reduce(ranks, numbers); }), error_code::bad_argument, "captured into a graph");
    on.broken().captured = false;
    all_reduce(ranks, numbers);
    on.wait(0, deadline::after(10s));
  });
}
