// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code of docs/collectives.md and docs/tuning.md.
// labels: threads processes
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <ranges>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <tutti/objects.hpp>
#include <tutti/tutti.hpp>

#include "support/expect.hpp"

namespace {

using namespace std::chrono_literals;
using tutti::testing::expect;

struct vote {
  int yes = 0, no = 0;
};

struct add_votes {
  static constexpr bool commutative = true;

  vote operator()(vote a, vote b) const { return {a.yes + b.yes, a.no + b.no}; }
};

struct hypotenuse {
  static constexpr bool commutative = true;
  double operator()(double a, double b) const { return std::hypot(a, b); }
};

std::map<std::string, int> read_vocabulary() { return {{"tutti", 1}}; }

}  // namespace

TEST_CASE("collectives") {
  tutti::run_threads(4, [](auto& comm) {
    std::size_t const ranks = static_cast<std::size_t>(comm.size()), rank = static_cast<std::size_t>(comm.rank());

    std::vector<float> in(8, 1.0f), out(8), all(8 * ranks), blocks(8 * ranks);

    tutti::all_reduce(comm, in, out);               // out[i] = sum of in[i] over all ranks
    tutti::reduce(comm, in, out, tutti::max{}, 2);  // only rank 2's out is written
    tutti::broadcast(comm, out, 2);                 // every rank gets the out of rank 2
    tutti::all_gather(comm, in, all);               // all = in of rank 0, in of rank 1, ...
    tutti::reduce_scatter(comm, all, out);          // out = this rank's block of the sum
    tutti::gather(comm, in, all, 0);                // as all_gather, at rank 0 only
    tutti::scatter(comm, all, out, 0);              // out = this rank's block of rank 0's all
    tutti::all_to_all(comm, all, blocks);           // block q of blocks = this rank's block of rank q's all
    tutti::scan(comm, in, out);                     // out[i] = sum over ranks 0 to this one
    tutti::exclusive_scan(comm, in, out);           // the same without this one; rank 0's out is not touched
    tutti::barrier(comm);                           // no rank continues before all have arrived

    tutti::all_reduce(comm, in, tutti::mean{});                         // in place
    tutti::all_gather(comm, std::span(all).subspan(8 * rank, 8), all);  // in place: this rank's block of all

    std::vector<std::size_t> counts(ranks);
    for (std::size_t r = 0; r < ranks; ++r) counts[r] = r + 1;  // rank r has r + 1 elements
    std::vector<int> mine(counts[rank], comm.rank()), everything(ranks * (ranks + 1) / 2);
    tutti::all_gather_v(comm, mine, everything, counts);
    expect(everything.back() == comm.size() - 1, "all_gather_v");

    std::vector<int> outgoing(everything.size(), comm.rank());
    std::vector<std::size_t> const send_counts = counts;
    auto const [gathered, sizes] = tutti::all_gather_v(comm, mine);
    auto const [incoming, receive_counts] = tutti::all_to_all_v(comm, outgoing, send_counts);
    expect(gathered == everything && sizes == counts, "all_gather_v by value");
    expect(incoming.size() == ranks * (rank + 1) && incoming.back() == comm.size() - 1, "all_to_all_v by value");
    expect(receive_counts == std::vector(ranks, rank + 1), "its counts");
    if (comm.is_main()) tutti::gather(comm, in, all);
    else tutti::gather(comm, in, {}, 0);

    std::vector<vote> votes(1, comm.rank() % 2 == 0 ? vote{1, 0} : vote{0, 1});
    tutti::all_reduce(comm, votes, add_votes{});
    expect(votes[0].yes == 2, "votes");

    std::vector<double> norms{std::sqrt(2.0)};
    tutti::all_reduce(comm, norms, hypotenuse{});
    auto const add = tutti::commutative([](double a, double b) { return a + b; });
    tutti::all_reduce(comm, norms, add);

    tutti::all_reduce(comm, norms, tutti::reproducible_sum{});
    tutti::binned<double> mine_binned;
    for (double const value : norms) mine_binned += value;
    double const same_on_any_number_of_ranks = tutti::all_reduce(comm, mine_binned).value();
    expect(same_on_any_number_of_ranks == norms[0] * comm.size(), "a sum of binned numbers");

    std::vector<tutti::located<float>> worst{{static_cast<float>(comm.rank()), comm.rank()}};
    tutti::all_reduce(comm, worst, tutti::argmax{});  // the greatest value and its index
    expect(worst[0].index == comm.size() - 1, "argmax");

    std::vector<std::vector<float>> gradients(50, std::vector<float>(100));
    tutti::all_reduce(comm, gradients, tutti::mean{});  // many arrays, few messages

    std::map<std::string, std::vector<double>> losses{{"train", {0.5}}, {"test", {0.6}}};
    tutti::all_reduce_map(comm, losses, tutti::mean{});

    std::mt19937_64 random(tutti::sync_random_seed(comm));  // the same numbers on all ranks

    std::map<std::string, int> vocabulary;
    if (comm.is_main()) vocabulary = read_vocabulary();
    tutti::broadcast_object(comm, vocabulary);  // through cereal
    expect(vocabulary.contains("tutti"), "an object");
    if (comm.rank() == 0) tutti::send_object(comm, vocabulary, 1);
    if (comm.rank() == 1) vocabulary = tutti::recv_object<std::map<std::string, int>>(comm, 0);
    expect(vocabulary.contains("tutti"), "a message");

    auto const [begin, count] = tutti::part(1'000'000, comm.size(), comm.rank());  // this rank's share of a million
    expect(begin == 250'000 * rank && count == 250'000, "a share");
    expect(random() != 0, "a number");
  });
}

TEST_CASE("arrays with gaps") {
  tutti::run_threads(3, [](auto& comm) {
    std::size_t const rows = 2, columns = 3, column = 1;
    std::vector<double> values(rows * columns, 1.0);
    double* const matrix = values.data();
    std::vector<float> const in(8, 2.0f);

    tutti::all_reduce(comm, tutti::strided(matrix + column, rows, columns));  // a column of a matrix stored by rows
    std::deque<int> recent(8, comm.rank());
    tutti::broadcast(comm, recent, 0);
    auto const squares = in | std::views::transform([](float x) { return x * x; });
    std::vector<float> const sums = tutti::all_reduce(comm, squares);  // computed while the call reads its input

    expect(values == std::vector<double>{1, 3, 1, 1, 3, 1}, "the column alone is combined");
    expect(recent == std::deque<int>(8, 0), "broadcast to a deque");
    expect(sums == std::vector<float>(8, 12.0f), "the sum of squares");
  });
}

TEST_CASE("values") {
  tutti::run_threads(4, [](auto& comm) {
    int const mine = comm.rank() + 1;
    double const x = 0.5;

    int const total = tutti::all_reduce(comm, mine);
    double const norm = std::sqrt(tutti::all_reduce(comm, x * x));
    std::vector<int> const all = tutti::all_gather(comm, mine);
    vote const first = tutti::broadcast(comm, vote{mine, 0});
    std::optional<int> const greatest = tutti::reduce(comm, mine, tutti::max{}, 0);  // empty except at rank 0
    int const before = tutti::exclusive_scan(comm, mine);
    expect(total == 10 && norm == 1 && all.size() == 4 && first.yes == 1 && before == comm.rank() * mine / 2, "values");
    expect(greatest == (comm.is_main() ? std::optional(4) : std::nullopt), "the greatest");

    auto const best = tutti::all_reduce(comm, tutti::located{x * mine, comm.rank()}, tutti::argmax{});
    expect(best.value == 2 && best.index == 3, "argmax");

    std::tuple<double, double, long> const seen{x * mine, x * mine, 1};
    auto const [least, most, count] =
        tutti::all_reduce(comm, seen, tutti::each{tutti::min{}, tutti::max{}, tutti::sum{}});
    expect(least == 0.5 && most == 2 && count == 4, "each");
  });
}

TEST_CASE("choices") {
  tutti::run_threads(4, [](auto& comm) {
    std::vector<float> in(1 << 16, 1.0f), out(in.size());
    tutti::all_reduce<tutti::ring>(comm, in, out);  // when the program is compiled
    tutti::all_reduce(comm, in, out, tutti::sum{}, {.algorithm = tutti::algorithm_id::two_shot});  // when it runs
    tutti::all_reduce(comm, in, out, tutti::sum{}, {.timeout = 30s});  // the deadline of this call

    auto const choice = tutti::explain<float>(comm, tutti::collective::all_reduce, in.size());
    comm.main_only([&] { std::puts(choice.text.c_str()); });

    auto gradient = comm.template allocate<float>(1 << 20);  // an array that peers read in place
    tutti::all_reduce(comm, gradient);
    expect(out.front() == 4 && gradient[0] == 0, "a sum");
  });
}

TEST_CASE("a topology") {
  tutti::run_local(2, [](auto& comm) {
    tutti::topology const where = tutti::topology_of(comm);
    comm.main_only([&] { std::puts(where.text().c_str()); });
    double const us = where.latency(0, 1), gigabytes_per_second = where.bandwidth(0, 1);
    expect(us > 0 && gigabytes_per_second > 0, "a time");
  });
}
