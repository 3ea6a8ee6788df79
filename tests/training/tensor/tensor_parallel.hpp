// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks that divide a layer exchange equals what one process computes. Each function is what a rank does.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

using training::sharded_dimension;

// Small integers, so that sums are exact in any order. Every rank can compute those of all others.
inline std::vector<float> whole_numbers(std::size_t n, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<float> out(n);
  for (float& x : out) x = static_cast<float>(random() % 17) - 8;
  return out;
}
inline std::vector<float> sum_of_ranks(std::size_t n, int ranks, int seed) {
  std::vector<float> out(n);
  for (int r = 0; r < ranks; ++r) {
    auto const one = whole_numbers(n, seed + r);
    for (std::size_t i = 0; i < n; ++i) out[i] += one[i];
  }
  return out;
}
// Element by element, by the definition.
inline std::vector<float> part_of(std::vector<float> const& whole, sharded_dimension const& along, int ranks,
                                  int rank) {
  std::vector<float> out;
  extent const mine = part(along.extent, ranks, rank);
  for (std::size_t i = 0; i < whole.size(); ++i)
    if (std::size_t const at = i / along.inner % along.extent; at >= mine.begin && at < mine.end())
      out.push_back(whole[i]);
  return out;
}

// Calls of a group that is `group`, or tutti::async(group).
template <class Group, class Finish>
void check_exchanges_along(Group&& group, sharded_dimension const& along, Finish finish) {
  int const ranks = group.size(), rank = group.rank();
  auto const whole = whole_numbers(along.size(), 1), mine = whole_numbers(along.size(), 100 + rank);
  auto const sum = sum_of_ranks(along.size(), ranks, 100);
  auto const own = part_of(whole, along, ranks, rank), own_of_sum = part_of(sum, along, ranks, rank);
  std::vector<float> some_part(own.size()), some_whole(whole.size());
  auto const expect_part = [&](std::vector<float> const& wanted, std::string const& what) {
    expect(some_part == wanted, what);
    std::ranges::fill(some_part, -1.0f);
  };
  auto const expect_whole = [&](std::vector<float> const& wanted, std::string const& what) {
    expect(some_whole == wanted, what);
    std::ranges::fill(some_whole, -1.0f);
  };
  training::scatter_to_group{along}.forward(group, whole, some_part);
  expect_part(own, "scatter_to_group, forward");
  finish([&] { return training::scatter_to_group{along}.backward(group, own, some_whole); });
  expect_whole(whole, "scatter_to_group, backward");
  finish([&] { return training::gather_from_group{along}.forward(group, own, some_whole); });
  expect_whole(whole, "gather_from_group, forward");
  training::gather_from_group{along}.backward(group, whole, some_part);
  expect_part(own, "gather_from_group, backward");
  finish([&] { return training::gather_sequence{along}.forward(group, own, some_whole); });
  expect_whole(whole, "gather_sequence, forward");
  finish([&] { return training::gather_sequence{along}.backward(group, mine, some_part); });
  expect_part(own_of_sum, "gather_sequence, backward");
  finish([&] { return training::reduce_scatter_sequence{along}.forward(group, mine, some_part); });
  expect_part(own_of_sum, "reduce_scatter_sequence, forward");
  finish([&] { return training::reduce_scatter_sequence{along}.backward(group, own, some_whole); });
  expect_whole(whole, "reduce_scatter_sequence, backward");

  some_whole = mine;
  training::copy_to_group{}.forward(group, some_whole);
  training::reduce_from_group{}.backward(group, some_whole);
  expect(some_whole == mine, "copy_to_group, forward, or reduce_from_group, backward");
  finish([&] { return training::copy_to_group{}.backward(group, some_whole); });
  expect_whole(sum, "copy_to_group, backward");
  some_whole = mine;
  finish([&] { return training::reduce_from_group{}.forward(group, some_whole); });
  expect_whole(sum, "reduce_from_group, forward");
}

template <class Comm>
void check_exchanges(Comm& comm) {
  for (std::size_t const outer : {1u, 3u})
    for (std::size_t const extent : {1u, 2u, 7u, 16u, 1000u})
      for (std::size_t const inner : {1u, 5u}) {
        sharded_dimension const along{outer, extent, inner};
        check_exchanges_along(comm, along, [](auto&& call) { call(); });
        check_exchanges_along(async(comm), along, [](auto&& call) { call().wait(); });
      }
}

// More words than ranks, fewer, and a single one.
template <class Comm>
void check_embedding(Comm& comm) {
  int const ranks = comm.size(), rank = comm.rank();
  for (std::size_t const words : {1u, 3u, 17u}) {
    training::sharded_embedding const embedding{.words = words, .features = 6};
    auto const by_words = sharded_dimension::rows(words, 6);
    auto const table = whole_numbers(by_words.size(), 7), mine = part_of(table, by_words, ranks, rank);
    std::vector<int> tokens;
    for (std::size_t i = 0; i < 40; ++i) tokens.push_back(static_cast<int>(i * i % words));
    auto const gradient = whole_numbers(tokens.size() * 6, 8);

    std::vector<float> wanted(tokens.size() * 6), out(wanted.size(), -1), table_gradient(table.size(), 2);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      std::size_t const of_table = static_cast<std::size_t>(tokens[i / 6]) * 6 + i % 6;
      wanted[i] = table[of_table];
      table_gradient[of_table] += gradient[i];
    }
    embedding.forward(comm, tokens, mine, out);
    expect(out == wanted, "sharded_embedding, forward");
    std::ranges::fill(out, -1.0f);
    embedding.forward(async(comm), tokens, mine, out).wait();
    expect(out == wanted, "sharded_embedding, started forward");
    std::ranges::fill(out, -1.0f);
    std::vector<char> const narrow(tokens.begin(), tokens.end());
    embedding.forward(comm, narrow, mine, out);
    expect(out == wanted, "sharded_embedding, forward, of char");
    std::vector<float> own_gradient(mine.size(), 2);
    embedding.backward(comm, std::span(tokens), gradient, own_gradient);
    expect(own_gradient == part_of(table_gradient, by_words, ranks, rank), "sharded_embedding, backward");
  }
}

// Within the last bits of a softmax computed by the definition in a wider type. Logits that overflow exp are among them.
template <class T, class Comm>
void check_cross_entropy_of(Comm& comm) {
  constexpr std::size_t rows = 9;
  double const ulp = static_cast<double>(std::numeric_limits<T>::epsilon());
  for (std::size_t const classes : {1u, 3u, 10u, 257u}) {
    auto const own = part(classes, comm.size(), comm.rank());
    std::mt19937 random(3);
    std::normal_distribution<double> normal(0, 3);
    std::vector<T> all(rows * classes), logits, losses(rows), scales(rows);
    std::vector<std::int64_t> targets;
    for (T& x : all) x = static_cast<T>(normal(random));
    for (std::size_t i = 0; i < rows; ++i) {
      if (i % 3 == 1) all[i * classes + random() % classes] += 1000;
      targets.push_back(static_cast<std::int64_t>(i * 5 % classes));
      scales[i] = static_cast<T>(i) - 3;
      auto const first = all.begin() + static_cast<std::ptrdiff_t>(i * classes + own.begin);
      logits.insert(logits.end(), first, first + static_cast<std::ptrdiff_t>(own.count));
    }
    training::sharded_cross_entropy const loss{.classes = classes};
    loss.forward(comm, logits, targets, losses);
    auto gradient = logits;
    loss.backward(comm, gradient, targets, scales);

    for (std::size_t i = 0; i < rows; ++i) {
      std::span const row(all.data() + i * classes, classes);
      auto const target = static_cast<std::size_t>(targets[i]);
      long double const greatest = *std::ranges::max_element(row);
      long double sum = 0;
      for (T const x : row) sum += std::exp(x - greatest);
      long double const wanted = std::log(sum) - (static_cast<long double>(row[target]) - greatest);
      // exp is off by an ulp at most, and so is the rounding of its argument for magnitudes up to 16.
      double const bound = 40 * ulp;
      auto const near = [&](T x, long double y) {
        return std::abs(static_cast<double>(x - y)) <= bound * std::max(1.0, std::abs(static_cast<double>(y)));
      };
      expect(near(losses[i], wanted), "a loss");
      for (std::size_t k = 0; k < own.count; ++k) {
        long double const p = std::exp(row[own.begin + k] - greatest) / sum;
        expect(near(logits[i * own.count + k], p), "a probability");
        expect(near(gradient[i * own.count + k], static_cast<long double>(scales[i]) * (p - (own.begin + k == target))),
               "a gradient of the logits");
      }
    }
    auto of_rank_0 = losses;
    broadcast(comm, of_rank_0);
    expect(losses == of_rank_0, "losses differ between ranks");
  }
}

// The same bits as one process, but for the last: see the contract of sharded_cross_entropy.
template <class Comm>
void check_cross_entropy(Comm& comm) {
  check_cross_entropy_of<float>(comm);
  check_cross_entropy_of<double>(comm);

  std::vector<float> row(10, 1), losses(1);
  std::array<int, 1> const target{9};
  row[3] = std::numeric_limits<float>::quiet_NaN();
  auto logits = part_of(row, sharded_dimension::rows(10, 1), comm.size(), comm.rank());
  training::sharded_cross_entropy{.classes = 10}.forward(comm, logits, target, losses);
  expect(std::isnan(losses[0]), "a NaN among the logits is lost");
}

// All ranks make the same mistake, which each notices before it sends anything.
template <class Comm>
void check_refused_shapes(Comm& comm) {
  std::vector<float> small(1), full(12), losses(2);
  std::vector<int> const tokens{1, 4};
  auto const refused = [&](auto&& call, std::string const& words) {
    expect_error(error_of([&] { return call(), 0; }), error_code::bad_argument, words);
  };
  training::scatter_to_group const rows{sharded_dimension::rows(4, 3)};
  refused([&] { rows.forward(comm, small, small); }, "an array of 1 elements is passed as one of 1 x 4 x 3");
  std::vector<float> large(13);
  refused([&] { rows.backward(comm, large, full); },
          "an array of 13 elements is passed as this rank's part of 1 x 4 x 3, which has");
  refused([&] { rows.along.copy_part(std::span<float const>(full), std::span(small), 2, 0); },
          "an array of 1 elements is passed as this rank's part of 1 x 4 x 3, which has 6");
  refused([&] { rows.along.place_part(std::span<float const>(small), std::span(full), 2, 1); },
          "an array of 1 elements is passed as this rank's part of 1 x 4 x 3, which has 6");
  refused([&] { rows.along.copy_part(std::span<float const>(full), std::span(small), 2, 2); },
          "the part of rank 2 was asked for, but there are 2 ranks");
  training::sharded_embedding const embedding{.words = 4, .features = 3};
  std::vector<float> table(part(4, comm.size(), comm.rank()).count * 3), out(6);
  refused([&] { embedding.forward(comm, tokens, table, out); }, "token 1 is 4, but there are only 4 words");
  refused([&] { embedding.forward(comm, tokens, table, small); },
          "the rows of all tokens are 2 x 3, but the array has 1 elements");
  training::sharded_cross_entropy const loss{.classes = 4};
  std::vector<float> logits(part(4, comm.size(), comm.rank()).count * 2);
  refused([&] { loss.forward(comm, logits, tokens, losses); }, "target 1 is 4, but there are only 4 classes");
  refused([&] { loss.forward(comm, logits, tokens, small); }, "the losses are 2 x 1, but the array has 1 elements");
  barrier(comm);  // the group is intact
}

template <class Comm>
void check_tensor_parallel(Comm& comm) {
  check_exchanges(comm);
  check_embedding(comm);
  check_cross_entropy(comm);
  check_refused_shapes(comm);
}

}  // namespace tutti::testing
