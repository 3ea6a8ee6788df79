// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays that are not contiguous, over one transport: collectives and messages give the results that they give on vectors,
// and leave the memory between the elements alone. Each function is executed by every rank.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <iterator>
#include <ranges>
#include <string>
#include <vector>

#include "collective/kinds_of_arrays.hpp"
#include "started/async.hpp"
#include "support/conformance.hpp"
#include "support/expect.hpp"
#include "support/sanitized.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

enum class ways_to_call { blocking, started, prepared, batch };

// Call k of every_call.
template <class In, class Out, class T, class Comm>
void check_call_with_gaps(Comm& comm, int k, std::size_t count, ways_to_call way, options const& o = {}) {
  every_call<T, sum> const kind(comm.rank(), comm.size(), count, o);
  auto plain = kind.make(k);
  filled_array<In, T> in(plain.in);
  filled_array<Out, T> out(plain.out);
  auto counts = plain.counts;
  kind.call(k, comm, plain);
  switch (way) {
    case ways_to_call::blocking: kind.call(k, comm, in.array, out.array, counts); break;
    case ways_to_call::started: kind.call(k, async(comm), in.array, out.array, counts).wait(); break;
    case ways_to_call::prepared: {
      persistent const again = kind.call(k, tutti::prepared(comm), in.array, out.array, counts);
      for (int turn = 0; turn < 2; ++turn) {
        // The array of a broadcast is an input too.
        if (k == 6) out.memory = out.before;
        persistent(again).start();
        persistent(again).wait();
      }
      break;
    }
    case ways_to_call::batch: {
      tutti::batch all(comm);
      kind.call(k, all, in.array, out.array, counts);
      all.run();
    }
  }
  std::string const what = "collective " + std::to_string(k) + " of " + std::to_string(count) + " elements by " +
                           std::string(name(o.algorithm)) + ", " + std::string(name(o.protocol));
  expect(out.has(plain.out), what + " has another result, or writes between the elements");
  expect(in.has(plain.in), what + " writes its input");
}

template <class In, class Out, class T, class Comm>
void check_calls_with_gaps(Comm& comm, std::size_t count, ways_to_call way, options const& o = {}) {
  for (int k = 0; k < every_call<T, sum>::kinds; ++k) check_call_with_gaps<In, Out, T>(comm, k, count, way, o);
}

// The collectives of every_call, and whether it calls the _v form.
struct called {
  collective what;
  bool ragged = false;
};
inline constexpr called calls_of_every_call[] = {
    {collective::all_reduce},       {collective::reduce},           {collective::scan},
    {collective::exclusive_scan},   {collective::reduce_scatter},   {collective::reduce_scatter, true},
    {collective::broadcast},        {collective::all_gather},       {collective::gather},
    {collective::all_gather, true}, {collective::gather, true},     {collective::scatter},
    {collective::all_to_all},       {collective::all_to_all, true},
};

// Calls f(k, options) for every call by every algorithm and protocol that can make it.
template <class Comm, class F>
void for_each_way_to_travel(Comm& comm, std::size_t bytes, F&& f) {
  for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule const& s) {
    for (int k = 0; k < static_cast<int>(std::size(calls_of_every_call)); ++k) {
      called const& call = calls_of_every_call[k];
      if (call.what != c || (call.ragged && !s.ragged)) continue;
      for (protocol const how : {protocol::packet, protocol::staged, protocol::direct, protocol::pull})
        if (possible(comm, s, c, id, how, bytes) && !(call.ragged && how == protocol::packet))
          f(k, options{.algorithm = id, .protocol = how});
    }
  });
}

// Sanitizers make loops over elements slow. These are still several slices, and the longest messages use slots again among 4 ranks.
inline constexpr unsigned several_slices = sanitized ? 9'000 : 21'000;

// Numbers of elements below and above the limits of slices, which many ranks reach with fewer.
inline std::vector<std::size_t> counts_of_slices(int ranks) {
  if (ranks > 3) return {3, 4099};
  return {1, 4097, sanitized ? 20'001u : 70'001u};
}

// By every algorithm and protocol.
template <class In, class Out, class Comm>
void check_algorithms_with_gaps(Comm& comm) {
  for (std::size_t const count : counts_of_slices(comm.size()))
    for_each_way_to_travel(comm, count * sizeof(float), [&](int k, options const& o) {
      check_call_with_gaps<In, Out, float>(comm, k, count, ways_to_call::blocking, o);
    });
}

// In place, and with an output that overlaps the input in another way: the result is that of separate arrays.
template <class Comm>
void check_overlaps_with_gaps(Comm& comm) {
  for (std::size_t const count : counts_of_slices(comm.size()))
    for_each_way_to_travel(comm, count * sizeof(float), [&](int k, options const& o) {
      if (k > 3) return;
      every_call<float, sum> const kind(comm.rank(), comm.size(), count, o);
      auto plain = kind.make(k);
      plain.out = plain.in;
      std::vector<float> const given = plain.in;
      kind.call(k, comm, plain);
      auto const check = [&](char const* what, std::size_t in_place, std::ptrdiff_t in_stride, std::size_t out_place) {
        std::vector<float> memory(3 * count + 3, -1.0f);
        auto const in = strided(memory.data() + in_place, count, in_stride),
                   out = strided(memory.data() + out_place, count, 3);
        auto const at = [](auto const& array, std::size_t i) -> float& {
          return array.data[static_cast<std::ptrdiff_t>(i) * array.stride];
        };
        for (std::size_t i = 0; i < count; ++i) at(in, i) = given[i];
        std::vector<float> expected = memory;
        kind.call(k, comm, in, out, plain.counts);
        // Ranks without a result leave the output as it was.
        bool const gets = k == 1 ? comm.rank() == comm.size() - 1 : k != 3 || comm.rank() > 0;
        for (std::size_t i = 0; i < count && gets; ++i)
          expected[static_cast<std::size_t>(&at(out, i) - memory.data())] = plain.out[i];
        expect(same_bytes(memory, expected), "collective " + std::to_string(k) + " of " + std::to_string(count) +
                                                 " elements by " + std::string(name(o.algorithm)) + ", " +
                                                 std::string(name(o.protocol)) + ": " + what + " has another result");
      };
      check("in place", 0, 3, 0);
      check("an output that is shifted by an element", 0, 3, 3);
      check("an output in reverse", 3 * (count - 1), -3, 0);
      check("another column", 1, 3, 0);
    });
}

// Messages by pull of so many slices that 2 ranks use each window again.
template <class In, class Out, class Comm>
void check_windows_used_again(Comm& comm) {
  constexpr std::size_t count = 140'001;
  for_each_way_to_travel(comm, count * sizeof(float), [&](int k, options const& o) {
    if (o.protocol == protocol::pull) check_call_with_gaps<In, Out, float>(comm, k, count, ways_to_call::blocking, o);
  });
}

// Collectives of blocks whose own block is a part of the blocks of all, or whose output is the input.
template <class Comm>
void check_overlapping_blocks(Comm& comm) {
  std::size_t const count = counts_of_slices(comm.size()).back();
  for_each_way_to_travel(comm, count * sizeof(float), [&](int k, options const& o) {
    if (k != 4 && k != 5 && k != 7 && k != 9 && k != 12) return;
    every_call<float, sum> const kind(comm.rank(), comm.size(), count, o);
    auto plain = kind.make(k);
    std::vector<float> const given = plain.in;
    std::size_t before = 0;  // elements of blocks of lower ranks
    for (int q = 0; q < comm.rank(); ++q)
      before += calls_of_every_call[k].ragged ? plain.counts[static_cast<std::size_t>(q)] : count;
    auto counts = plain.counts;
    kind.call(k, comm, plain);
    std::size_t const in_size = given.size(), out_size = plain.out.size();
    std::size_t const in_place = in_size < out_size ? 3 * before : 0, out_place = out_size < in_size ? 3 * before : 0;
    std::vector<float> memory(3 * std::max(in_size, out_size), -1.0f);
    for (std::size_t i = 0; i < in_size; ++i) memory[in_place + 3 * i] = given[i];
    std::vector<float> expected = memory;
    for (std::size_t i = 0; i < out_size; ++i) expected[out_place + 3 * i] = plain.out[i];
    auto const in = strided(memory.data() + in_place, in_size, 3),
               out = strided(memory.data() + out_place, out_size, 3);
    kind.call(k, comm, in, out, counts);
    expect(same_bytes(memory, expected), "collective " + std::to_string(k) + " of " + std::to_string(count) +
                                             " elements by " + std::string(name(o.algorithm)) + ", " +
                                             std::string(name(o.protocol)) +
                                             ": blocks that overlap have another result");
  });
}

// Slices end within elements of 12 bytes, which are moved.
template <class Comm>
void check_moves_with_gaps(Comm& comm) {
  using element = std::array<float, 3>;
  auto const ranks = static_cast<std::size_t>(comm.size()), rank = static_cast<std::size_t>(comm.rank());
  auto const value = [](std::size_t source, std::size_t i) {
    return element{static_cast<float>(source), static_cast<float>(i), -1.0f};
  };
  for (std::size_t const count : {1u, 1999u, 30011u}) {
    std::vector<element> mine(2 * count), all(3 * count * ranks);
    for (std::size_t i = 0; i < count; ++i) mine[2 * i] = value(rank, i);
    all_gather(comm, strided(mine.data(), count, 2), strided(all.data(), count * ranks, 3));
    for (std::size_t i = 0; i < count * ranks; ++i)
      expect(all[3 * i] == value(i / count, i % count) && all[3 * i + 1] == element{}, "an element was torn apart");
    broadcast(comm, strided(mine.data(), count, 2), comm.size() - 1);
    for (std::size_t i = 0; i < count; ++i)
      expect(mine[2 * i] == value(ranks - 1, i) && mine[2 * i + 1] == element{}, "a broadcast element was torn apart");
  }
}

template <class In, class Out, class Comm>
void check_calls_with_gaps(Comm& comm) {
  for (std::size_t const count : {0u, 1u, 5u, 300u, several_slices})
    for (auto const way : {ways_to_call::blocking, ways_to_call::started, ways_to_call::prepared, ways_to_call::batch})
      check_calls_with_gaps<In, Out, float>(comm, count, way);
  check_calls_with_gaps<In, Out, float>(comm, 5000, ways_to_call::blocking, {.protocol = protocol::staged});
}

// Around a ring: each rank receives into an array that is longer than the message by some elements.
template <class In, class Out, class Comm>
void check_messages_with_gaps(Comm& comm) {
  int const ranks = comm.size(), rank = comm.rank(), right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  for (std::size_t const count : {0u, 1u, 5u, 300u, several_slices, sanitized ? 70'000u : 300'000u}) {
    auto const values_of = [&](int source) {
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(source) + static_cast<float>(i) / 4;
      return values;
    };
    filled_array<In, float> const in(values_of(rank));
    auto const check = [&](char const* way, auto&& exchange) {
      std::vector<float> buffer(count + 7, 5.0f);
      filled_array<Out, float> out(buffer);
      expect(exchange(out.array) == received{left, 3, count}, std::string("the receive has another result: ") + way);
      std::ranges::copy(values_of(left), buffer.begin());
      expect(out.has(buffer), std::string("a message has other elements, or something else has changed: ") + way);
    };
    check("send_recv", [&](auto& out) { return send_recv(comm, in.array, right, out, left, 3); });
    check("recv", [&](auto& out) {
      work const sent = isend(comm, in.array, right, 3);
      received const got = recv(comm, out, any_source, 3);
      work(sent).wait();
      return got;
    });
    check("send", [&](auto& out) {
      receive_work incoming = irecv(comm, out, left, 3);
      send(comm, in.array, right, 3);
      return incoming.get();
    });
    check("prepared", [&](auto& out) {
      filled_array<In, float> twice(std::vector<float>(count, -1.0f));
      persistent to_right = send(prepared(comm), twice.array, right, 3);
      persistent_receive from_left = recv(prepared(comm), out, left, 3);
      received got{};
      for (int turn = 0; turn < 2; ++turn) {
        from_left.start();
        to_right.start();
        got = from_left.get();
        to_right.wait();
        twice.memory = in.memory;  // of the second turn
      }
      return got;
    });
    check("batch::run", [&](auto& out) { return batch(comm).send(in.array, right, 3).recv(out, left, 3).run().at(0); });
    check("batch::start", [&](auto& out) {
      batch both(comm);
      both.send(in.array, right, 3).recv(out, left, 3);
      return both.start().get().at(0);
    });
    filled_array<Out, float> unused(std::vector<float>(count, 1.0f));
    send_recv(comm, in.array, no_rank, unused.array, no_rank);
    expect(unused.memory == unused.before, "a receive from no_rank changes its array");
  }
}

// The forms of a call with one array, or with none to write to.
template <class Comm>
void check_forms_with_gaps(Comm& comm) {
  int const ranks = comm.size(), rank = comm.rank(), below = ranks * (ranks - 1) / 2;

  std::deque<int> const rank_and_1{rank, 1};
  std::deque<int> data = rank_and_1;
  all_reduce(comm, data);
  expect(data == std::deque{below, ranks}, "a deque is replaced");
  expect(all_reduce(comm, rank_and_1) == std::vector{below, ranks}, "a const deque is not");
  expect(all_reduce(comm, std::deque{rank, 1}, tutti::max{}) == std::vector{ranks - 1, 1}, "nor is a temporary one");
  data = rank_and_1;
  broadcast(comm, data, ranks - 1);
  expect(data == std::deque{ranks - 1, 1}, "broadcast replaces it too");
  auto const twice = [](int x) { return 2 * x; };
  expect(all_reduce(comm, rank_and_1 | std::views::transform(twice)) == std::vector{2 * below, 2 * ranks},
         "values that are computed on demand are an input");
  expect(all_gather(comm, std::views::iota(rank, rank + 1)).back() == ranks - 1, "to all_gather as well");
  data = rank_and_1;
  reduce(comm, data, 0);
  expect(data == (rank == 0 ? std::deque{below, ranks} : rank_and_1), "reduce changes only the root's");

  std::vector<int> matrix{rank, 0, 1, 0};
  all_reduce(comm, strided(matrix.data(), 2, 2));
  expect(matrix == std::vector{below, 0, ranks, 0}, "a temporary that refers to a column is replaced");

  int number = rank;
  all_reduce(comm, mdspan_view<int, 0>{&number, {}, {}});
  expect(number == below, "an array of rank 0 is an element");
  std::deque<int> everyone(static_cast<std::size_t>(ranks));
  number = rank;
  all_gather(comm, mdspan_view<int const, 0>{&number, {}, {}}, everyone);
  expect(everyone.back() == ranks - 1, "and is gathered");
}

}  // namespace tutti::testing
