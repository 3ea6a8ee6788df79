// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Named algorithms among virtual ranks of a device, compared with the host bit by bit; blocks are threads.
// labels: threads
// timeout: 400
#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "support/device_algorithms.hpp"
#include "support/device_stand_in.hpp"
#include "support/expect.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

// Short slices and shares, so that short messages have several of each.
constexpr channel_options three_blocks{.blocks = 3, .share = 256, .slots = 2, .slice = 256};

template <class F>
void on_rank_counts(F const& f) {
  device_stand_in const on;
  for (int const p : ranks_to_test({1, 2, 3, 4, 5, 8})) {
    device_channels channels(on, p, three_blocks);
    cuda_local const ranks(channels);
    auto const size = static_cast<std::size_t>(p);
    for (std::size_t const n : {std::size_t{0}, std::size_t{1}, size - 1, size + 1, std::size_t{1000}}) {
      if (sanitized && n < size && n != 1) continue;
      CAPTURE(p);
      CAPTURE(n);
      f(ranks, n);
    }
  }
}

device_options<device_stand_in> const with_slots{.protocol = protocol::staged};

// Neither commutative nor associative, so both the order and the parentheses show.
struct leaning_sum {
  float operator()(float a, float b) const { return 0.75f * a + b; }
};

// Algorithms that combine in another order, or in other parentheses, if the operation is commutative.
template <class Algorithm>
constexpr bool reorders = std::is_same_v<Algorithm, ring> || std::is_same_v<Algorithm, double_binary_tree> ||
                          std::is_same_v<Algorithm, recursive_halving> || std::is_same_v<Algorithm, pairwise>;

// A sum with a prologue and an epilogue.
struct scaled_mean : mean {
  template <class A>
  A prepare(A x) const {
    return 0.3f * x;
  }
};

}  // namespace

#define EVERY_ALGORITHM \
  ring, binomial_tree, double_binary_tree, recursive_doubling, recursive_halving, bruck, pairwise, one_shot, two_shot

TEST_CASE_TEMPLATE("reductions have the bits of the host", Algorithm, EVERY_ALGORITHM) {
  on_rank_counts([](auto const& ranks, std::size_t n) {
    if constexpr (reorders<Algorithm>) CHECK(wrong_reductions<Algorithm, float>(ranks, n, sum{}, with_slots) == 0);
    if constexpr (!sanitized || !reorders<Algorithm>)
      CHECK(wrong_reductions<Algorithm, float>(ranks, n, leaning_sum{}, with_slots) == 0);
  });
}

TEST_CASE_TEMPLATE("blocks come to where they belong", Algorithm, EVERY_ALGORITHM) {
  on_rank_counts([](auto const& ranks, std::size_t n) {
    CHECK(wrong_movements<Algorithm, std::uint32_t>(ranks, n, with_slots) == 0);
  });
}

TEST_CASE_TEMPLATE("prologue and epilogue are applied where the host does", Algorithm, ring, double_binary_tree) {
  on_rank_counts([](auto const& ranks, std::size_t n) {
    CHECK(wrong_reductions<Algorithm, bfloat16>(ranks, n, scaled_mean{}, with_slots) == 0);
  });
}

TEST_CASE("packets have the bits of one_shot on the host") {
  on_rank_counts([](auto const& ranks, std::size_t n) {
    CHECK(wrong_reductions<one_shot, bfloat16>(ranks, n, scaled_mean{}) == 0);
    CHECK(wrong_movements<one_shot, summary>(ranks, n) == 0);
    if constexpr (!sanitized) {
      CHECK(wrong_reductions<one_shot, float>(ranks, n, leaning_sum{}) == 0);
      CHECK(wrong_reductions<one_shot, bfloat16>(ranks, n, premultiplied_sum{0.3f}) == 0);
      CHECK(wrong_reductions<one_shot, affine>(ranks, n, compose{}) == 0);
      CHECK(wrong_movements<one_shot, std::uint8_t>(ranks, n) == 0);
    }
  });
}

TEST_CASE("blocks and slices may be many or few") {
  device_stand_in const on{.members = 3};
  for (channel_options const& o : {channel_options{}, channel_options{.blocks = 1, .slots = 2, .slice = 1024},
                                   channel_options{.blocks = 16, .share = 1, .slots = 7},
                                   channel_options{.blocks = 5, .share = 1000, .slice = 128}}) {
    device_channels channels(on, 3, o);
    cuda_local const ranks(channels);
    for (std::size_t const n : {std::size_t{5}, std::size_t{4099}, std::size_t{sanitized ? 7001 : 30011}}) {
      CAPTURE(n);
      CHECK(wrong_reductions<ring, float>(ranks, n, sum{}) == 0);
      CHECK(wrong_reductions<two_shot, float>(ranks, n, sum{}) == 0);
      CHECK(wrong_movements<bruck, std::uint32_t>(ranks, n) == 0);
    }
  }
}

TEST_CASE("a hundred calls follow each other, of all sizes and kinds") {
  int launches = 0;
  device_stand_in const on{.launches = &launches};
  device_channels channels(on, 4, three_blocks);
  cuda_local const ranks(channels);
  auto data = to_device(on, ranks_values<std::uint32_t>(4, std::vector<std::uint32_t>(300, 1)));
  for (int i = 0; i < 100; ++i) {
    std::vector<std::span<std::uint32_t>> parts;
    for (auto const& x : data) parts.emplace_back(x.data(), static_cast<std::size_t>(1 + i * 37 % 300));
    switch (i % 3) {
      case 0: all_reduce<ring>(ranks, parts, parts); break;
      case 1: all_reduce<one_shot>(ranks, parts, parts); break;
      default: all_reduce<double_binary_tree>(ranks, parts, parts);
    }
  }
  CHECK(launches == 100);
  // 4 to the power of the number of calls that an element was part of, modulo 2^32.
  ranks_values<std::uint32_t> expected(4, std::vector<std::uint32_t>(300, 1));
  for (int i = 0; i < 100; ++i)
    for (auto& x : expected)
      for (std::size_t k = 0; k < static_cast<std::size_t>(1 + i * 37 % 300); ++k) x[k] *= 4;
  CHECK(different(to_host(on, data), expected) == 0);
}

TEST_CASE("an algorithm out of a list is chosen by its id") {
  device_stand_in const on;
  device_channels channels(on, 3);
  cuda_local const ranks(channels);
  auto data = to_device(on, ranks_values<float>{{1, 2}, {3, 4}, {5, 6}});
  all_reduce<list<ring, bruck, two_shot>>(ranks, data, data, sum{}, {.algorithm = algorithm_id::two_shot});
  CHECK(different(to_host(on, data), ranks_values<float>(3, {9, 12})) == 0);
  auto const chosen = [&](algorithm_id id) {
    return error_of([&] { all_reduce<list<ring, bruck, two_shot>>(ranks, data, data, sum{}, {.algorithm = id}); });
  };
  CHECK(chosen(algorithm_id::one_shot).happened() == "one_shot is none of the listed algorithms that serve this call");
  CHECK(chosen(algorithm_id::bruck).happened() == "bruck is none of the listed algorithms that serve this call");
}

TEST_CASE("calls that cannot be had are refused before anything is launched") {
  int launches = 0;
  device_stand_in const on{.launches = &launches, .at_once = 7}, none{.at_once = 0};
  device_channels two(on, 2), eight(on, 8), busy(none, 2);
  auto data = to_device(on, all_values<float>(2, 6000)), many = to_device(on, all_values<float>(8, 6));
  using on_stand_in = device_options<device_stand_in>;
  auto const refused = [](auto const& call) {
    auto const e = error_of(call);
    CHECK(e.code() == error_code::bad_argument);
    CHECK(e.where().line() > 0);
    return e.happened();
  };
  cuda_local const ranks(two);
  CHECK(refused([&] { all_reduce<ring>(cuda_local(on, 2), data, data); }) ==
        "an algorithm sends messages between ranks, and this cuda_local has no channels for them");
  CHECK(refused([&] { all_reduce<ring>(cuda_local(eight), many, many); }) ==
        "a device that runs 7 blocks of this kernel at once cannot have 8 ranks that send each other messages");
  CHECK(refused([&] { all_reduce<one_shot>(cuda_local(busy), data, data); }) ==
        "a device that runs 0 blocks of this kernel at once cannot have 2 ranks that send each other messages");
  CHECK(refused([&] { all_reduce(ranks, data, data, sum{}, {.algorithm = algorithm_id::ring}); }) ==
        "the call chooses ring in its options, but has not been compiled with it");
  CHECK(refused([&] { all_reduce(ranks, data, data, sum{}, on_stand_in{.protocol = protocol::packet}); }) ==
        "protocol packet needs an algorithm, but the call names none");
  CHECK(refused([&] { all_reduce<one_shot>(ranks, data, data, sum{}, {.protocol = protocol::packet}); }) ==
        "packets of 24000 bytes were asked for, but among 2 ranks they have at most 16384");
  CHECK(refused([&] { all_reduce<ring>(ranks, data, data, sum{}, {.protocol = protocol::packet}); }) ==
        "this call on a device cannot use protocol packet");
  CHECK(refused([&] { all_reduce<ring>(ranks, data, data, sum{}, {.algorithm = algorithm_id::two_shot}); }) ==
        "the call names ring by its type and two_shot in its options");
  CHECK(launches == 0);
  all_reduce<ring>(ranks, data, data);
  CHECK(refused([&] { all_reduce<ring>(ranks, data, data, sum{}, {.stream = 1}); }) ==
        "these device_channels are already used on another stream");
  CHECK(launches == 1);

  auto const made = [&](int count, channel_options const& o) {
    return error_of([&] { device_channels<device_stand_in>(on, count, o); }).code() == error_code::bad_argument;
  };
  CHECK(made(0, {}));
  CHECK(made(65, {}));
  CHECK(made(2, {.blocks = 0}));
  CHECK(made(2, {.slots = 1}));
  CHECK(made(2, {.slice = 100}));
}
