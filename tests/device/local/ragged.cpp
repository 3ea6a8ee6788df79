// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks of uneven sizes among virtual ranks of a device; launches run on the CPU.
// labels: threads alike
#include "tutti/device/local/ragged.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/device_collectives.hpp"
#include "support/device_stand_in.hpp"
#include "support/expect.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

std::vector<std::size_t> uneven_counts(std::size_t ranks) {
  std::vector<std::size_t> out;
  for (std::size_t q = 0; q < ranks; ++q) out.push_back(q % 3 == 1 ? 0 : 5 + q * q * 7 % 41);
  return out;
}
std::vector<std::size_t> begins_of(std::vector<std::size_t> const& counts) {
  std::vector<std::size_t> out{0};
  for (std::size_t const n : counts) out.push_back(out.back() + n);
  return out;
}

template <class T>
ranks_values<T> values_of_sizes(std::vector<std::size_t> const& sizes, int seed = 0) {
  ranks_values<T> out;
  for (std::size_t const n : sizes) out.push_back(uneven_values<T>(seed + static_cast<int>(out.size()), n));
  return out;
}

template <class T>
std::vector<T> joined(ranks_values<T> const& parts) {
  std::vector<T> out;
  for (auto const& x : parts) out.insert(out.end(), x.begin(), x.end());
  return out;
}

}  // namespace

TEST_CASE_TEMPLATE("uneven blocks come to where they belong", T, std::uint8_t, float, summary) {
  for (std::size_t const p : {std::size_t{1}, std::size_t{2}, std::size_t{5}, std::size_t{8}})
    for (int const threads : {1, 64}) {
      CAPTURE(p);
      int launches = 0;
      device_stand_in const on{.threads = threads, .launches = &launches};
      cuda_local const ranks(on, static_cast<int>(p));
      auto const counts = uneven_counts(p), begins = begins_of(counts);
      auto const blocks = values_of_sizes<T>(counts);
      auto const all = joined(blocks);
      auto in = to_device(on, blocks), root = to_device(on, ranks_values<T>{all});
      auto out = to_device(on, ranks_values<T>(p, std::vector<T>(all.size())));
      all_gather_v(ranks, in, out, counts);
      CHECK(different(to_host(on, out), ranks_values<T>(p, all)) == 0);

      auto gathered = to_device(on, ranks_values<T>(1, std::vector<T>(all.size())));
      gather_v(ranks, in, gathered[0], counts);
      CHECK(different(to_host(on, gathered), {all}) == 0);

      auto dealt = to_device(on, values_of_sizes<T>(counts, 50));
      scatter_v(ranks, root[0], counts, dealt);
      CHECK(different(to_host(on, dealt), blocks) == 0);
      CHECK(launches == 3);

      // In place.
      auto data = to_device(on, ranks_values<T>(p, std::vector<T>(all.size())));
      std::vector<std::span<T>> own;
      for (std::size_t r = 0; r < p; ++r) {
        own.emplace_back(data[r].data() + begins[r], counts[r]);
        on.copy({}, own[r].data(), blocks[r].data(), counts[r] * sizeof(T));
      }
      all_gather_v(ranks, own, data, counts);
      CHECK(different(to_host(on, data), ranks_values<T>(p, all)) == 0);
    }
}

TEST_CASE("uneven blocks are combined as on the host") {
  for (std::size_t const p : {std::size_t{2}, std::size_t{5}}) {
    device_stand_in const on{.threads = 64};
    cuda_local const ranks(on, static_cast<int>(p));
    auto const counts = uneven_counts(p), begins = begins_of(counts);
    auto const values = all_values<float>(static_cast<int>(p), begins.back());
    ranks_values<float> expected;
    for (std::size_t const n : counts) expected.emplace_back(n);
    run_threads(static_cast<int>(p), [&](auto& comm) {
      auto const r = static_cast<std::size_t>(comm.rank());
      reduce_scatter_v(comm, values[r], expected[r], counts, sum{}, {.algorithm = algorithm_id::one_shot});
    });
    auto in = to_device(on, values);
    auto out = to_device(on, values_of_sizes<float>(counts, 50));
    reduce_scatter_v(ranks, in, out, counts);
    CHECK(different(to_host(on, out), expected) == 0);
  }
}

TEST_CASE_TEMPLATE("every rank sends blocks of its own sizes to every rank", T, std::uint8_t, float) {
  device_stand_in const on{.threads = 64};
  std::size_t const p = 4;
  std::vector<std::size_t> counts;
  for (std::size_t i = 0; i < p * p; ++i) counts.push_back(i * 11 % 7);
  ranks_values<T> sent(p), received(p);
  for (std::size_t r = 0; r < p; ++r)
    for (std::size_t q = 0; q < p; ++q) {
      auto const block = uneven_values<T>(static_cast<int>(r * p + q), counts[r * p + q]);
      sent[r].insert(sent[r].end(), block.begin(), block.end());
    }
  for (std::size_t q = 0; q < p; ++q)
    for (std::size_t r = 0; r < p; ++r) {
      auto const block = uneven_values<T>(static_cast<int>(r * p + q), counts[r * p + q]);
      received[q].insert(received[q].end(), block.begin(), block.end());
    }
  ranks_values<T> nothing;
  for (auto const& x : received) nothing.emplace_back(x.size());
  auto in = to_device(on, sent), out = to_device(on, nothing);
  all_to_all_v(cuda_local(on, static_cast<int>(p)), in, counts, out);
  CHECK(different(to_host(on, out), received) == 0);
}

TEST_CASE("wrong counts are refused") {
  device_stand_in const on;
  cuda_local const ranks(on, 2);
  auto in = to_device(on, ranks_values<float>{{1, 2}, {3}});
  auto out = to_device(on, ranks_values<float>(2, std::vector<float>(3)));
  std::vector<std::size_t> const right{2, 1}, wrong{1, 2}, few{3};
  auto const refused = [&](auto const& counts, device_options<device_stand_in> const& how = {}) {
    return error_of([&] { all_gather_v(ranks, in, out, counts, how); }).happened();
  };
  CHECK(refused(right) == "nothing was thrown");
  CHECK(refused(few) == "the call needs 2 counts for 2 ranks, but got 1");
  CHECK(refused(wrong) == "the input of all_gather has 2 elements, but the call needs 1");
  CHECK(refused(right, {.algorithm = algorithm_id::ring}) ==
        "a call with blocks of uneven sizes among virtual ranks cannot name an algorithm or a protocol");
}

TEST_CASE("counts that add up to more than memory can hold are refused, also if their sum wraps around") {
  device_stand_in const on;
  cuda_local const ranks(on, 2);
  float one = 0;
  std::size_t const half = std::size_t{1} << 63;
  auto const expect_refused = [](error const& e, std::string const& call) {
    CHECK(e.code() == error_code::bad_argument);
    CHECK(e.happened() == "the counts of " + call + "_v add up to more elements than memory can hold");
  };
  std::vector<std::span<float>> const none(2);
  std::vector<std::size_t> const square(4, half), pair(2, half), most(2, std::size_t{1} << 60);
  expect_refused(error_of([&] { all_to_all_v(ranks, none, square, none); }), "all_to_all");
  std::vector<std::span<float>> const vast(2, std::span<float>(&one, half)), large(2, std::span(&one, most[0]));
  expect_refused(error_of([&] { reduce_scatter_v(ranks, none, vast, pair); }), "reduce_scatter");
  expect_refused(error_of([&] { all_gather_v(ranks, vast, none, pair); }), "all_gather");
  expect_refused(error_of([&] { gather_v(ranks, large, std::span(&one, 2 * most[0]), most); }), "gather");
  expect_refused(error_of([&] { scatter_v(ranks, none[0], pair, vast); }), "scatter");

  error const e = error_of([&] { all_gather(ranks, vast, none); });
  CHECK(e.code() == error_code::bad_argument);
  CHECK(e.happened().find("2 such blocks are more than memory can hold") != std::string::npos);
}
