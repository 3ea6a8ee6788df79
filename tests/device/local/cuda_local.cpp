// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives among virtual ranks of a device, compared with those of the host bit by bit; launches run on the CPU.
// labels: threads
// timeout: 200
#include "tutti/device/local/cuda_local.hpp"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include "support/device_collectives.hpp"
#include "support/device_stand_in.hpp"
#include "support/sanitized.hpp"
#include "tutti/device/local/ragged.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

std::vector<int> const numbers_of_ranks = ranks_to_test({1, 2, 3, 4, 5, 8, 13});
std::vector<std::size_t> const short_counts =
    sanitized ? std::vector<std::size_t>{0, 1, 700} : std::vector<std::size_t>{0, 1, 37, 700};

options const one_shot_alone{.algorithm = algorithm_id::one_shot};

template <class T, class Op>
void check_reductions(Op const& op) {
  for (int const p : numbers_of_ranks) {
    for (std::size_t const n : short_counts) {
      CAPTURE(p);
      CAPTURE(n);
      std::size_t const all = n * static_cast<std::size_t>(p);
      for (int const threads : {1, 64}) {
        device_stand_in const on{.threads = threads};
        auto const device = result_on_device<T>(
            on, p, p, n, p, n, [&](auto const& ranks, auto& in, auto& out) { all_reduce(ranks, in, out, op); });
        CHECK(different(device, on_host<T>(p, n, n, [&](auto& comm, auto& in, auto& out) {
                          all_reduce(comm, in, out, op, one_shot_alone);
                        })) == 0);
        CHECK(different(device, on_host<T>(p, n, n, [&](auto& comm, auto& in, auto& out) {
                          all_reduce(comm, in, out, op, {.algorithm = algorithm_id::two_shot});
                        })) == 0);
        CHECK(different(
                  result_on_device<T>(on, p, p, n, 1, n,
                                      [&](auto const& ranks, auto& in, auto& out) { reduce(ranks, in, out[0], op); }),
                  n > 0 ? ranks_values<T>{device[0]} : ranks_values<T>(1)) == 0);
        CHECK(different(result_on_device<T>(
                            on, p, p, all, p, n,
                            [&](auto const& ranks, auto& in, auto& out) { reduce_scatter(ranks, in, out, op); }),
                        on_host<T>(p, all, n, [&](auto& comm, auto& in, auto& out) {
                          reduce_scatter(comm, in, out, op, one_shot_alone);
                        })) == 0);
        if constexpr (!has_finish<Op, accumulator_for<Op, T>>) {
          CHECK(
              different(result_on_device<T>(on, p, p, n, p, n,
                                            [&](auto const& ranks, auto& in, auto& out) { scan(ranks, in, out, op); }),
                        on_host<T>(p, n, n, [&](auto& comm, auto& in, auto& out) {
                          scan(comm, in, out, op, one_shot_alone);
                        })) == 0);
          CHECK(different(result_on_device<T>(
                              on, p, p, n, p, n,
                              [&](auto const& ranks, auto& in, auto& out) { exclusive_scan(ranks, in, out, op); }),
                          on_host<T>(p, n, n, [&](auto& comm, auto& in, auto& out) {
                            exclusive_scan(comm, in, out, op, one_shot_alone);
                          })) == 0);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("reductions have the bits of the host: float") { check_reductions<float>(sum{}); }
TEST_CASE("reductions have the bits of the host: bfloat16, prologue and epilogue") {
  check_reductions<bfloat16>(mean{});
  if constexpr (!sanitized) check_reductions<bfloat16>(premultiplied_sum{0.3f});
}
TEST_CASE("reductions have the bits of the host: not commutative") {
  if constexpr (!sanitized) check_reductions<affine>(compose{});
}

TEST_CASE_TEMPLATE("blocks come to where they belong", T, std::uint8_t, summary) {
  for (int const p : numbers_of_ranks) {
    for (std::size_t const n : short_counts) {
      CAPTURE(p);
      CAPTURE(n);
      std::size_t const all = n * static_cast<std::size_t>(p);
      for (int const threads : {1, 64, 96}) {
        device_stand_in const on{.threads = threads};
        CHECK(
            different(result_on_device<T>(on, p, 1, n, p, n,
                                          [](auto const& ranks, auto& in, auto& out) { broadcast(ranks, in[0], out); }),
                      ranks_values<T>(static_cast<std::size_t>(p), uneven_values<T>(0, n))) == 0);
        auto const gathered =
            on_host<T>(p, n, all, [](auto& comm, auto& in, auto& out) { all_gather(comm, in, out, one_shot_alone); });
        CHECK(different(result_on_device<T>(on, p, p, n, p, all,
                                            [](auto const& ranks, auto& in, auto& out) { all_gather(ranks, in, out); }),
                        gathered) == 0);
        CHECK(different(result_on_device<T>(on, p, p, n, 1, all,
                                            [](auto const& ranks, auto& in, auto& out) { gather(ranks, in, out[0]); }),
                        {gathered[0]}) == 0);
        CHECK(different(result_on_device<T>(on, p, 1, all, p, n,
                                            [](auto const& ranks, auto& in, auto& out) { scatter(ranks, in[0], out); }),
                        on_host<T>(p, all, n, [](auto& comm, auto& in, auto& out) {
                          scatter(comm, in, out, 0, one_shot_alone);
                        })) == 0);
        CHECK(different(result_on_device<T>(on, p, p, all, p, all,
                                            [](auto const& ranks, auto& in, auto& out) { all_to_all(ranks, in, out); }),
                        on_host<T>(p, all, all, [](auto& comm, auto& in, auto& out) {
                          all_to_all(comm, in, out, one_shot_alone);
                        })) == 0);
      }
    }
  }
}

TEST_CASE("any rank may be the root, and one list may hold inputs and outputs") {
  device_stand_in const on{.threads = 64};
  int const p = 3;
  std::size_t const n = 50;
  cuda_local const ranks(on, p);
  auto const values = all_values<float>(p, n);
  auto const sums = on_host<float>(
      p, n, n, [](auto& comm, auto& in, auto& out) { all_reduce(comm, in, out, sum{}, one_shot_alone); })[0];
  auto const gathered = on_host<float>(
      p, n, n * p, [](auto& comm, auto& in, auto& out) { all_gather(comm, in, out, one_shot_alone); })[0];
  for (int root = 0; root < p; ++root) {
    CAPTURE(root);
    auto const at_root = static_cast<std::size_t>(root);
    auto data = to_device(on, values);
    broadcast(ranks, data, root);
    CHECK(different(to_host(on, data), ranks_values<float>(p, values[at_root])) == 0);

    auto expected = values;
    expected[at_root] = sums;
    data = to_device(on, values);
    reduce(ranks, data, sum{}, root);
    CHECK(different(to_host(on, data), expected) == 0);

    // The root's block is in place.
    auto all = to_device(on, all_values<float>(1, n * p));
    data = to_device(on, values);
    std::vector<std::span<float>> blocks;
    for (auto const& x : data) blocks.emplace_back(x.data(), n);
    blocks[at_root] = std::span(all[0].data() + at_root * n, n);
    on.copy({}, blocks[at_root].data(), values[at_root].data(), n * sizeof(float));
    gather(ranks, blocks, all[0], root);
    CHECK(different(to_host(on, all), {gathered}) == 0);
    scatter(ranks, all[0], blocks, root);
    gather(ranks, blocks, all[0], root);
    CHECK(different(to_host(on, all), {gathered}) == 0);

    std::vector<std::size_t> const counts(p, n);
    gather_v(ranks, blocks, all[0], counts, root);
    scatter_v(ranks, all[0], counts, blocks, root);
    CHECK(different(to_host(on, all), {gathered}) == 0);
  }
  auto data = to_device(on, values);
  auto const lists = [&] {
    std::vector<std::span<float>> out;
    for (auto const& x : data) out.emplace_back(x.data(), n);
    return out;
  };
  all_reduce(ranks, lists(), sum{});
  CHECK(different(to_host(on, data), ranks_values<float>(p, sums)) == 0);
  data = to_device(on, values);
  all_reduce(ranks, lists(), lists());
  CHECK(different(to_host(on, data), ranks_values<float>(p, sums)) == 0);
  for (int const root : {-1, p})
    CHECK_THROWS_WITH_AS(broadcast(ranks, data, root), doctest::Contains("is not a rank of"), tutti::error);
}

TEST_CASE("in place, and one launch a call") {
  int launches = 0;
  device_stand_in const on{.threads = 64, .launches = &launches};
  int const p = 4;
  std::size_t const n = 50;
  cuda_local const ranks(on, p);
  auto const values = all_values<float>(p, n * p);

  auto data = to_device(on, values);
  auto out = to_device(on, values);
  all_reduce(ranks, data, out);
  auto const expected = to_host(on, out);
  all_reduce(ranks, data, data);
  CHECK(different(to_host(on, data), expected) == 0);
  CHECK(launches == 2);

  // reduce_scatter into the own block, followed by all_gather from it, is an all_reduce.
  data = to_device(on, values);
  std::vector<std::span<float>> blocks;
  for (std::size_t r = 0; r < p; ++r) blocks.emplace_back(data[r].data() + r * n, n);
  reduce_scatter(ranks, data, blocks);
  all_gather(ranks, blocks, data);
  CHECK(different(to_host(on, data), expected) == 0);
  CHECK(launches == 4);
}

TEST_CASE("an epilogue runs in the launch of the collective") {
  device_stand_in const on;
  cuda_local const ranks(on, 2);
  auto in = to_device(on, ranks_values<float>{{1, 2, 3}, {5, 6, 7}});
  auto out = to_device(on, ranks_values<half>(2, std::vector<half>(3)));
  all_reduce(ranks, in, out, fused{sum{}, unchanged{}, scale{0.5f}});
  for (auto const& x : to_host(on, out)) CHECK(float{x[0]} + float{x[1]} + float{x[2]} == 12.0f);
}

TEST_CASE("wrong calls are refused before anything is launched") {
  int launches = 0;
  device_stand_in const on{.launches = &launches};
  CHECK_THROWS_WITH(cuda_local(on, 0), "tutti: a device was asked for 0 virtual ranks; ask for 1 to 64");
  CHECK_THROWS_AS(cuda_local(on, 65), tutti::error);
  cuda_local const ranks(on, 2);
  auto two = to_device(on, all_values<float>(2, 6)), three = to_device(on, all_values<float>(3, 6));
  auto uneven = to_device(on, ranks_values<float>{{1, 2, 3, 4, 5, 6}, {1, 2}});
  auto odd = to_device(on, all_values<float>(2, 5));
  auto const refused = [](auto const& call) -> std::string {
    try {
      call();
    } catch (tutti::error const& e) {
      CHECK(e.code() == error_code::bad_argument);
      CHECK(e.where().line() > 0);
      return e.happened() + (e.rank() >= 0 ? ", rank " + std::to_string(e.rank()) : "");
    }
    return "nothing";
  };
  CHECK(refused([&] { all_reduce(ranks, three, two); }) == "all_reduce among 2 ranks takes 2 input buffers, but got 3");
  CHECK(refused([&] { all_reduce(ranks, two, uneven); }) ==
        "the output of all_reduce has 2 elements, but the call needs 6, rank 1");
  CHECK(refused([&] { all_gather(ranks, two, two); }) ==
        "the output of all_gather has 6 elements, but the call needs 12, rank 0");
  CHECK(refused([&] { all_to_all(ranks, odd, odd); }) ==
        "the input of all_to_all has 5 elements, which 2 ranks cannot share equally, rank 0");
  CHECK(refused([&] { all_to_all(ranks, two, two); }) == "input and output of all_to_all overlap, rank 0");
  CHECK(refused([&] { scan(ranks, two, two); }) == "input and output of scan overlap, rank 0");
  std::vector<std::span<float>> const no_memory(2, std::span(static_cast<float*>(nullptr), 6));
  CHECK(refused([&] { all_reduce(ranks, no_memory, two); }) ==
        "the input of all_reduce has 6 elements, but its pointer is null, rank 0");
  std::vector<std::span<float>> late;
  for (auto const& x : two) late.emplace_back(x.data() + 1, 5);
  auto early = late;
  for (std::size_t r = 0; r < 2; ++r) early[r] = std::span(two[r].data(), 5);
  CHECK(refused([&] { all_reduce(ranks, early, late); }) == "input and output of all_reduce overlap, rank 0");
  std::span<float> first_late = late[0], second_late = late[1];
  CHECK(refused([&] { reduce(ranks, early, first_late); }) == "input and output of reduce overlap, rank 0");
  CHECK(refused([&] { reduce(ranks, early, second_late); }) == "input and output of reduce overlap, rank 1");
  CHECK(refused([&] { broadcast(ranks, first_late, early); }) == "input and output of broadcast overlap, rank 0");
  CHECK(refused([&] { broadcast(ranks, second_late, early); }) == "input and output of broadcast overlap, rank 1");
  std::vector<std::span<half>> halves;
  for (auto const& x : two) halves.emplace_back(reinterpret_cast<half*>(x.data()), 6);
  CHECK(refused([&] { all_reduce(ranks, two, halves); }) == "input and output of all_reduce overlap, rank 0");
  CHECK(launches == 0);
}
