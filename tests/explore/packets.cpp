// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small messages in packets: more rounds than there are sets of lines.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "explore/explore.hpp"
#include "explore/ranks.hpp"
#include "explore/weakenings.hpp"
#include "tutti/execute/packet.hpp"
#include "tutti/reduce/ops.hpp"

using namespace tutti;
using namespace tutti::testing::explore;

namespace {

// A block takes a line and a part of the next.
constexpr std::size_t block = 8;
constexpr int max_number = 4;
using elements = std::array<std::uint64_t, block * max_number>;
constexpr std::size_t block_bytes = block * sizeof(std::uint64_t);

struct packet_ranks {
  explicit packet_ranks(int n)
      : number(n),
        group(n, n),
        in(static_cast<std::size_t>(n)),
        out(static_cast<std::size_t>(n)),
        inbox(static_cast<std::size_t>(n),
              std::vector<std::byte>(detail::packet_stride * static_cast<std::size_t>(n))) {}

  template <collective C>
  void call(int rank, int round, int root) {
    auto const r = static_cast<std::size_t>(rank);
    std::uint64_t const base = 100 * static_cast<std::uint64_t>(round);
    in[r].fill(base + r + 1);
    out[r].fill(0);
    sum const op;
    constexpr bool combines = reduces(C) || C == collective::barrier;
    detail::byte_body const body =
        combines ? detail::reducing<std::uint64_t, sum>{op}.in_bytes() : detail::moving{}.in_bytes();
    detail::packet_execution<C, loopback> execution(
        group[rank], {number, root}, reinterpret_cast<std::byte const*>(in[r].data()),
        reinterpret_cast<std::byte*>(out[r].data()), C == collective::barrier ? 0 : block_bytes, body,
        static_cast<std::uint32_t>(round), inbox[r].data());
    wait_for([&] { return execution.poll() != detail::progress::stuck; });
    expect(!execution.found(), "a message of another call");
    check<C>(rank, base, root);
  }

  template <collective C>
  void check(int rank, std::uint64_t base, int root) {
    elements const& got = out[static_cast<std::size_t>(rank)];
    auto const n = static_cast<std::uint64_t>(number);
    auto const from = [&](int peer) { return base + static_cast<std::uint64_t>(peer) + 1; };
    auto const block_is = [&](std::size_t b, std::uint64_t value) {
      expect(got[b * block] == value && got[b * block + block - 1] == value, "a result is wrong");
    };
    if (C == collective::all_reduce || (C == collective::reduce && rank == root))
      block_is(0, n * base + n * (n + 1) / 2);
    if (C == collective::broadcast && rank != root) block_is(0, from(root));
    if (C == collective::all_gather || C == collective::all_to_all)
      for (int peer = 0; peer < number; ++peer)
        if (C == collective::all_gather || peer != rank) block_is(static_cast<std::size_t>(peer), from(peer));
  }

  int number;
  ranks group;
  std::vector<elements> in, out;
  std::vector<std::vector<std::byte>> inbox;
};

template <collective C>
program rounds(packet_ranks& all, int count) {
  return all.group.running([&all, count](int rank) {
    for (int round = 1; round <= count; ++round) all.call<C>(rank, round, 0);
  });
}

}  // namespace

TEST_CASE("all hear from all: two sets of lines") {
  packet_ranks two(2), three(3);
  program const p = rounds<collective::all_reduce>(two, 4);
  result const r = holds("packets, all_reduce, 2 ranks, 4 rounds", p);
  char const* const unread = "no rank looks: a peer that shows a round has finished the one before";
  finds(p, weakenings_of(r), {{"packets_read", access::store, change::relax, unread}});
  finds(p, {{change::drop, "packet.tag", access::store, {}},
            {change::delay, "packet.data", access::plain_store, "packet.tag"}});
  holds("packets, all_reduce, 3 ranks, 3 rounds", rounds<collective::all_reduce>(three, 3));
  holds("packets, all_to_all, 2 ranks, 4 rounds", rounds<collective::all_to_all>(two, 4));
  holds("packets, barrier, 3 ranks, 3 rounds", rounds<collective::barrier>(three, 3));
}

TEST_CASE("a rank runs ahead: four sets of lines") {
  packet_ranks two(2), three(3);
  program const p = rounds<collective::broadcast>(two, 6);
  result const r = holds("packets, broadcast, 2 ranks, 6 rounds", p);
  finds(p, weakenings_of(r));
  finds(p, {{change::drop, "packets_read", access::store, {}}});
  int const count = is_long_form() ? 7 : 5;
  std::string const what = ", 3 ranks, " + std::to_string(count) + " rounds";
  program const by_three = rounds<collective::broadcast>(three, count);
  holds("packets, broadcast" + what, by_three);
  finds(by_three, {{change::drop, "packets_read", access::store, {}}});  // so sets are used again
  holds("packets, reduce" + what, rounds<collective::reduce>(three, count));
}

TEST_CASE("collectives of both kinds, and changing roots") {
  packet_ranks two(2);
  holds("packets, broadcast, all_reduce, reduce, 2 ranks, 9 rounds", two.group.running([&](int rank) {
    for (int round = 1; round <= 9; round += 3) {
      two.call<collective::broadcast>(rank, round, round / 3 % 2);
      two.call<collective::all_reduce>(rank, round + 1, 0);
      two.call<collective::reduce>(rank, round + 2, 1 - round / 3 % 2);
    }
  }));
}

TEST_CASE("many rounds, at random") {
  packet_ranks all(max_number);
  holds_at_random("packets, broadcast, all_reduce, reduce, 4 ranks, 24 rounds", all.group.running([&](int rank) {
    for (int round = 1; round <= 24; round += 3) {
      all.call<collective::broadcast>(rank, round, round / 3 % max_number);
      all.call<collective::all_reduce>(rank, round + 1, 0);
      all.call<collective::reduce>(rank, round + 2, round % max_number);
    }
  }),
                  300);
}
