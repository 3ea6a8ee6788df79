// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between two ranks over one transport: any count, order and tag, mixed with calls, and errors.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "support/sanitized.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// Element i of message number `seed`.
template <class T>
std::vector<T> numbered(std::size_t count, std::uint32_t seed) {
  std::vector<T> out(count);
  T* const elements = out.data();  // whose access is fast where nothing is inlined
  for (std::size_t i = 0; i < count; ++i) elements[i] = static_cast<T>((seed * 1000003u + i * 7919u) % 100003u);
  return out;
}

inline std::vector<int> message_rank_counts() {
  if (sanitized) return {1, 2, 3};
  return {1, 2, 3, 4, 5, 8};
}
inline std::vector<std::size_t> message_counts() {
  std::size_t const slice = 64 * 1024 / sizeof(int);
  return {0, 1, 7, 8, 1000, 4099, slice + 3, (std::size_t{1} << (sanitized ? 16 : 18)) + 5};
}

// Receives a message into a buffer that is longer by some elements.
template <class T>
void expect_message(std::vector<T> const& buffer, received const& got, std::size_t count, std::uint32_t seed,
                    int source, int tag) {
  expect(got == received{source, tag, count}, "got " + std::to_string(got.count) + " of rank " +
                                                  std::to_string(got.source) + ", tag " + std::to_string(got.tag) +
                                                  " instead of " + std::to_string(count) + " of rank " +
                                                  std::to_string(source) + ", tag " + std::to_string(tag));
  auto const wanted = numbered<T>(count, seed);
  expect(std::equal(wanted.begin(), wanted.end(), buffer.begin()), "a message has other elements");
  expect(std::all_of(buffer.begin() + static_cast<std::ptrdiff_t>(count), buffer.end(), [](T x) { return x == T(77); }),
         "behind a message something was written");
}

// A fault of a single rank does not last.
template <class Comm>
void check_after_mismatch_alone(Comm& comm) {
  std::vector<int> const ten(10, 1), one(1, 7);
  std::vector<int> five(5), out(1);
  static_cast<void>(isend(comm, ten, 0));
  expect_error(error_of([&] { recv(comm, five, 0); }), error_code::mismatch, "does not fit");
  for (int i = 0; i < 2; ++i) {
    static_cast<void>(isend(comm, one, 0));
    recv(comm, out, 0);
    expect(out[0] == 7, "a message after one that did not fit is wrong");
  }
}

// Around a ring, also of a single rank.
template <class Comm>
void check_ways_to_send(Comm& comm) {
  int const p = comm.size(), me = comm.rank(), right = (me + 1) % p, left = (me + p - 1) % p;
  std::uint32_t seed = 0;
  for (std::size_t const count : message_counts()) {
    seed += 100;
    auto const mine = numbered<int>(count, seed + static_cast<std::uint32_t>(me));
    std::uint32_t const theirs = seed + static_cast<std::uint32_t>(left);
    auto const check = [&](auto&& receive) {
      std::vector<int> in(count + 3, 77);
      received const got = receive(in);
      expect_message(in, got, count, theirs, left, 5);
    };
    check([&](auto& in) { return send_recv(comm, mine, right, in, left, 5); });
    check([&](auto& in) { return batch(comm).send(mine, right, 5).recv(in, left, 5).run().at(0); });
    check([&](auto& in) {
      receive_work incoming = irecv(comm, in, any_source, any_tag);
      send(comm, mine, right, 5);
      return incoming.get();
    });
    check([&](auto& in) {
      work outgoing = isend(comm, mine, right, 5);
      received const got = recv(comm, in, left, 5);
      outgoing.wait();
      return got;
    });
    check([&](auto& in) {
      work outgoing = send(async(comm), mine, right, 5);
      receive_work incoming = recv(async(comm), in, left, any_tag);
      while (!outgoing.test() || !incoming.test()) std::this_thread::yield();
      return incoming.get();
    });
    auto shared = comm.template allocate<int>(count);
    std::ranges::copy(mine, shared.begin());
    check([&](auto& in) { return send_recv(comm, shared, right, in, left, 5); });
    if (p % 2 == 0)
      check([&](auto& in) {
        if (me % 2 == 0) send(comm, mine, right, 5);
        received const got = recv(comm, in, left, 5);
        if (me % 2 == 1) send(comm, mine, right, 5);
        return got;
      });
  }
}

struct planned_message {
  int from, to, tag;
  std::size_t count;
  bool any_source;
};

// All ranks make the same plan. A receive from any source has a tag of its own, also in later plans.
inline std::vector<planned_message> random_plan(int ranks, unsigned seed, int messages) {
  std::mt19937 random(seed);
  std::vector<planned_message> out;
  std::size_t const sizes[] = {0, 1, 9, 300, 5000, 70000};
  int const own_tag = 1000 * (1 + static_cast<int>(seed));
  for (int i = 0; i < messages; ++i) {
    auto const rank = [&] { return static_cast<int>(random() % static_cast<unsigned>(ranks)); };
    int const from = rank(), to = rank();
    bool const any = random() % 4 == 0;
    out.push_back({from, to, any ? own_tag + i : static_cast<int>(random() % 3), sizes[random() % 6], any});
  }
  return out;
}

// Messages of a sender with one tag are received in order, whatever the order of those with other tags.
template <class Comm>
void check_random_mesh(Comm& comm, unsigned seed, int messages) {
  auto const plan = random_plan(comm.size(), seed, messages);
  std::mt19937 own(seed * 31 + static_cast<unsigned>(comm.rank()));
  std::vector<std::vector<std::uint16_t>> sent(plan.size()), got(plan.size());
  std::vector<std::size_t> receives, all;
  for (std::size_t i = 0; i < plan.size(); ++i)
    if (plan[i].to == comm.rank()) receives.push_back(i);
  // Shuffled, then those of each source and tag put in order.
  std::ranges::shuffle(receives, own);
  for (std::size_t i = 0; i < receives.size(); ++i)
    for (std::size_t k = i + 1; k < receives.size(); ++k) {
      auto const &a = plan[receives[i]], &b = plan[receives[k]];
      if (a.from == b.from && a.tag == b.tag && receives[k] < receives[i]) std::swap(receives[i], receives[k]);
    }
  std::vector<work> sends;
  std::vector<std::pair<std::size_t, receive_work>> pending;
  auto next = receives.begin();
  auto const receive_some = [&](std::size_t n) {
    for (; n > 0 && next != receives.end(); --n, ++next) {
      planned_message const& m = plan[*next];
      got[*next].assign(m.count + 2, 77);
      pending.emplace_back(*next, irecv(comm, got[*next], m.any_source ? any_source : m.from, m.tag));
    }
  };
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].from != comm.rank()) continue;
    receive_some(own() % 3);
    sent[i] = numbered<std::uint16_t>(plan[i].count, static_cast<std::uint32_t>(i));
    sends.push_back(isend(comm, sent[i], plan[i].to, plan[i].tag));
    if (own() % 8 == 0) std::vector<int>(1000);
  }
  receive_some(receives.size());
  std::ranges::shuffle(pending, own);
  for (auto& [i, w] : pending)
    expect_message(got[i], w.get(), plan[i].count, static_cast<std::uint32_t>(i), plan[i].from, plan[i].tag);
  wait_for_all(sends);
}

// Messages without a receive are kept, and matched in order.
template <class Comm>
void check_order(Comm& comm) {
  if (comm.rank() == 0) {
    for (int round = 0; round < 3; ++round) {
      std::vector<work> works;
      std::vector<std::vector<int>> data;
      for (int i = 0; i < 300; ++i)
        data.push_back(numbered<int>(i % 7 == 0 ? 20000 : 10, static_cast<std::uint32_t>(i)));
      for (int i = 0; i < 300; ++i) works.push_back(isend(comm, data[static_cast<std::size_t>(i)], 1, i % 3));
      send(comm, numbered<int>(5, 999), 1, 9);
      wait_for_all(works);
    }
  } else if (comm.rank() == 1) {
    std::vector<int> in(20000 + 2);
    auto const get = [&](int tag, int expected, std::size_t count, std::uint32_t seed) {
      std::ranges::fill(in, 77);
      received const got = recv(comm, in, tag == any_tag ? any_source : 0, tag);
      expect_message(in, got, count, seed, 0, expected);
    };
    auto const size = [](int i) { return i % 7 == 0 ? std::size_t{20000} : std::size_t{10}; };
    for (int round = 0; round < 3; ++round) {
      get(9, 9, 5, 999);
      if (round == 0) {
        for (int i = 0; i < 300; ++i) get(any_tag, i % 3, size(i), static_cast<std::uint32_t>(i));
      } else {
        for (int const tag : {2, 0, 1})
          for (int i = tag; i < 300; i += 3) get(tag, tag, size(i), static_cast<std::uint32_t>(i));
      }
    }
  }
  barrier(comm);
}

// Empty messages, also if the receiver has no credit left.
template <class Comm>
void check_empty_offer(Comm& comm) {
  std::vector<int> data(256, 3), in(256), none;
  int const messages = 400;
  if (comm.rank() == 0) {
    std::vector<work> works;
    for (int i = 0; i < messages; ++i) works.push_back(isend(comm, data, 1, 1));
    work const empty = isend(comm, none, 1, 2);
    send(comm, none, 1, 3);
    wait_for_all(works);
    work(empty).wait();
  } else if (comm.rank() == 1) {
    for (int const tag : {3, 2}) expect(recv(comm, in, 0, tag) == received{0, tag, 0}, "an empty message is not empty");
    for (int i = 0; i < messages; ++i) recv(comm, in, 0, 1);
  }
  barrier(comm);
}

// A sender whose receiver does not ask for its messages is held back, which bounds the memory of the receiver.
template <class Comm>
void check_flood(Comm& comm) {
  std::vector<int> const data(1024, 1);
  int const messages = 3000, enough = 9;
  std::array<int, 1> end{};
  if (comm.rank() == 0) {
    work stop = irecv(comm, end, 1, enough);
    int sent = 0;
    std::vector<work> last;
    while (!stop.test()) {
      if (last.empty() || last.back().test()) {
        last.assign(1, isend(comm, data, 1, 1));
        ++sent;
      }
    }
    expect(static_cast<std::size_t>(sent) * sizeof(int) * data.size() <= (std::size_t{1} << 20),
           std::to_string(sent) + " messages were sent to a rank that asked for none");
    for (; sent < messages; ++sent) send(comm, data, 1, 1);
    wait_for_all(last);
  } else if (comm.rank() == 1) {
    std::vector<int> in(data.size());
    receive_work never = irecv(comm, end, 0, enough + 1);
    auto const until = detail::deadline::after(std::chrono::milliseconds(200));
    while (!until.passed()) never.advance();
    send(comm, end, 0, enough);
    for (int i = 0; i < messages; ++i) {
      recv(comm, in, 0, 1);
      expect(in == data, "a message is wrong");
    }
    send(comm, end, 0, enough);
    never.wait();
  }
  if (comm.rank() == 0) {
    recv(comm, end, 1, enough);
    send(comm, end, 1, enough + 1);
  }
  barrier(comm);
}

// Calls, blocking and started, while messages are in flight.
template <class Comm>
void check_beside_calls(Comm& comm) {
  int const p = comm.size(), me = comm.rank(), right = (me + 1) % p, left = (me + p - 1) % p;
  for (int round = 0; round < 10; ++round)
    for (std::size_t const count : {3u, 5000u, 200000u}) {
      std::vector<long> out(count, me), in(count), ones(count, 1), twos(count, 2);
      receive_work incoming = irecv(comm, in, left, round);
      all_reduce(comm, ones);
      work sum_of_twos = all_reduce(async(comm), twos);
      work outgoing = isend(comm, out, right, round);
      barrier(comm);
      if (me % 2 == 0) outgoing.wait();
      sum_of_twos.wait();
      expect(incoming.get() == received{left, round, count} && in == std::vector<long>(count, left),
             "a message beside calls is wrong");
      outgoing.wait();
      expect(ones == std::vector<long>(count, p) && twos == std::vector<long>(count, 2 * p),
             "a sum beside messages is wrong");
    }
}

template <class Comm>
void check_batched_messages(Comm& comm) {
  int const p = comm.size(), me = comm.rank();
  auto const ranks = static_cast<std::size_t>(p);
  for (std::size_t const count : {2u, 3000u, 100000u}) {
    std::vector<std::vector<int>> in(ranks, std::vector<int>(count)), out;
    batch all(comm);
    for (int r = 0; r < p; ++r) out.emplace_back(count, me * 1000 + r);
    for (int r = 0; r < p; ++r) all.send(out[static_cast<std::size_t>(r)], r, me);
    for (int r = p - 1; r >= 0; --r) all.recv(in[static_cast<std::size_t>(r)], r, r);
    for (int again = 0; again < 2; ++again) {
      auto const got = all.run();
      for (int r = 0; r < p; ++r) {
        expect(got[static_cast<std::size_t>(p - 1 - r)] == received{r, r, count}, "a batch has got something else");
        expect(in[static_cast<std::size_t>(r)] == std::vector<int>(count, r * 1000 + me), "a batch has other elements");
        std::ranges::fill(in[static_cast<std::size_t>(r)], 0);
      }
    }
  }
}

// A call that throws the fault of the communicator has ended the messages in flight: the caller may release their memory.
template <class Comm>
void check_messages_end_with_fault(Comm& comm) {
  std::array<int, 1> const out{1};
  std::array<int, 1> in{};
  auto const check = [&](std::string const& name, auto const& call) {
    auto group = comm.split(0);
    receive_work const never = irecv(*group, in, (comm.rank() + 1) % comm.size(), 1);
    barrier(comm);
    group->revoke("enough");
    expect_error(error_of([&] { call(*group); }), error_code::revoked, "enough");
    // Another thread of this process may be ending it, and already leaves its memory alone.
    for (auto const until = detail::deadline::after(std::chrono::seconds(10)); !never.done() && !until.passed();)
      std::this_thread::yield();
    expect(never.done() && never.exception() != nullptr, "a receive outlived the fault that " + name + " has thrown");
    barrier(comm);
  };
  check("send", [&](auto& group) { send(group, out, comm.rank()); });
  check("isend", [&](auto& group) { static_cast<void>(isend(group, out, comm.rank())); });
  check("barrier", [&](auto& group) { barrier(group); });
}

// no_rank, groups, and rejected arguments.
template <class Comm>
void check_arguments_of_messages(Comm& comm) {
  std::vector<int> data(4, 3), copy(4);
  int const me = comm.rank();
  send(comm, data, no_rank);
  expect(recv(comm, copy, no_rank) == received{no_rank, any_tag, 0} && copy[0] == 0, "something came from no_rank");
  isend(comm, data, no_rank).wait();
  expect(irecv(comm, copy, no_rank).get().source == no_rank, "something came from no_rank");
  expect(send_recv(comm, data, me, copy, me).count == 4 && copy == data, "a rank got something else from itself");
  expect(send_recv(comm, data, no_rank, copy, no_rank).source == no_rank, "something came from no_rank");
  std::string const last = std::to_string(comm.size() - 1);
  expect_error(error_of([&] { send(comm, data, comm.size()); }), error_code::bad_argument, "send names rank ");
  expect_error(error_of([&] { send(comm, data, any_source); }), error_code::bad_argument, "from 0 to " + last);
  expect_error(error_of([&] { recv(comm, data, -1); }), error_code::bad_argument, "any_source or no_rank");
  expect_error(error_of([&] { static_cast<void>(isend(comm, data, 0, -1)); }), error_code::bad_argument, "has tag -1");
  expect_error(error_of([&] { recv(comm, data, 0, -5); }), error_code::bad_argument, "0 or more, or any_tag");
  expect_error(error_of([&] { send(comm, data, me, 0, {.algorithm = algorithm_id::ring}); }), error_code::bad_argument,
               "takes no algorithm or protocol");
  expect_error(error_of([&] { send_recv(comm, data, me, data, me); }), error_code::bad_argument, "overlap");
  if (comm.size() == 1) return;
  if (auto pair = comm.split(me < 2 ? 0 : no_color)) {
    expect(send_recv(*pair, data, 1 - me, copy, 1 - me).source == 1 - me, "a group has sent something else");
  }
  barrier(comm);
}

// -- Errors, each on a communicator of its own.

// Both ends throw, and so does the next call of any rank.
template <class Comm>
void check_unfit_messages(Comm& comm) {
  std::vector<float> floats(10);
  std::vector<double> doubles(20);
  auto const fails = [&](auto&& sends, auto&& receives, std::string const& words) {
    std::vector<int> all(static_cast<std::size_t>(comm.size()));
    std::iota(all.begin(), all.end(), 0);
    auto group = comm.subgroup(all);
    auto const run = [&] {
      if (group.rank() == 0) sends(group);
      if (group.rank() == 1) receives(group);
      barrier(group);
    };
    error const e = error_of(run);
    expect_error(e, error_code::mismatch, words);
    expect(std::string(e.what()).ends_with("; receive into an array of the type that was sent, at least as long"),
           "the advice does not fit the error");
  };
  fails([&](auto& g) { send(g, floats, 1, 3); }, [&](auto& g) { recv(g, doubles, 0, 3); },
        "a message of 40 bytes of float from rank 0, tag 3 does not fit the recv of up to 20 double from rank 0, tag 3 "
        "(160 bytes), of rank 1");
  fails([&](auto& g) { send(g, doubles, 1); },
        [&](auto& g) { recv(g, std::span(doubles).first(19), any_source, any_tag); },
        "a message of 160 bytes of double from rank 0, tag 0 does not fit the recv of up to 19 double from any rank, "
        "any tag");
  std::vector<double> many(100000);
  fails([&](auto& g) { isend(g, many, 1).wait(); }, [&](auto& g) { irecv(g, doubles, 0).wait(); },
        "a message of 800000 bytes of double from rank 0");
}

// Two or three ranks that all send first, or all receive first.
template <class Comm>
void check_circles(Comm& comm) {
  for (bool const polls : {false, true}) {
    int const length = polls || comm.size() < 3 ? 2 : 3;
    if (comm.rank() >= length) return;
    auto circle = comm.subgroup(length == 2 ? std::vector{0, 1} : std::vector{0, 1, 2});
    int const next = (circle.rank() + 1) % length;
    std::vector<int> data(200000), in(data.size());
    options const soon{.timeout = std::chrono::seconds(2)};
    bool const sends = comm.size() % 2 == 0;
    auto const end_of = [&](work w) {
      while (!w.test()) std::this_thread::yield();
    };
    auto const run = [&] {
      if (polls) return end_of(sends ? isend(circle, data, next, 4, soon) : irecv(circle, in, next, 4, soon));
      if (sends) send(circle, data, next, 4, soon);
      recv(circle, in, next, 4, soon);
    };
    error const e = error_of(run);
    std::string const what = sends ? "send of 200000 int to rank " : "recv of up to 200000 int from rank ";
    expect_error(e, error_code::timeout, " did not complete within 2 s");
    expect_error(e, error_code::timeout, "is in " + what);
    expect_error(e, error_code::timeout, ", tag 4 at ");
    expect_error(e, error_code::timeout, "; they wait for each other [rank ");
    expect_error(e, error_code::timeout, "; start both directions at once with send_recv");
  }
}

// A message to oneself that is too long to be sent before it is received.
template <class Comm>
void check_circle_of_one(Comm& comm) {
  std::vector<int> const data(200000);
  error const e = error_of([&] { send(comm, data, comm.rank(), 4, {.timeout = std::chrono::milliseconds(200)}); });
  expect_error(e, error_code::timeout, "; start both directions at once with send_recv");
}

// A rank that is alone waits for itself.
template <class Comm>
void check_lone_receive(Comm& comm) {
  std::vector<int> data(3);
  options const soon{.timeout = std::chrono::milliseconds(100)};
  for (bool const tests : {false, true}) {
    receive_work in = irecv(comm, data, 0, 4, soon);
    error const e = error_of([&] {
      while (tests && !in.test()) {
      }
      in.wait();
    });
    expect_error(e, error_code::timeout, "; rank 0 waits for itself [rank 0]");
  }
}

// All ranks close with a receive to which nobody sends. That of rank 0 comes so late that the others would have given up.
template <class Comm>
void check_receives_at_end(Comm& comm) {
  std::vector<int> in_vain(3), late(3);
  receive_work never, last;
  {
    auto group = comm.split(0).value();
    never = irecv(group, in_vain, any_source, 9);
    if (group.rank() == 1) last = irecv(group, late, 0, 8);
    if (group.rank() == 0 && group.size() > 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      send(group, std::vector<int>(3, 5), 1, 8);
    }
  }
  expect(last.get().count == (comm.rank() == 1 ? 3 : 0), "a message that comes while its receiver closes is lost");
  expect_error(error_of([&] { never.wait(); }), error_code::rank_left, "nobody sends what a recv waits for: ");
  barrier(comm);
}

// All ranks close with a long send that nobody receives, because the receive has another tag. What rank 0 sends last is received, although
// the others have waited for it while they closed.
template <class Comm>
void check_sends_at_end(Comm& comm) {
  std::vector<int> const data(200'000, 5);
  std::vector<int> in_vain(data.size()), late(data.size());
  work sent, sent_late;
  receive_work never, last;
  bool const receives_late = comm.rank() == 1 % comm.size();
  {
    auto group = comm.split(0).value();
    int const right = (group.rank() + 1) % group.size();
    sent = isend(group, data, right, 9);
    never = irecv(group, in_vain, any_source, 7);
    if (receives_late) last = irecv(group, late, 0, 8);
    if (group.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      sent_late = isend(group, data, right, 8);
    }
  }
  if (comm.rank() == 0) sent_late.wait();
  expect(!receives_late || late == data, "a long message that comes late is lost");
  for (error const& e : {error_of([&] { sent.wait(); }), error_of([&] { never.wait(); })}) {
    expect_error(e, error_code::rank_left, ": all ranks close their communicators, and rank ");
    expect_error(e, error_code::rank_left, comm.size() == 1 ? "nobody receives this message" : "");
  }
  barrier(comm);
}

// Ranks that wait for each other, because the tags of send and receive differ.
template <class Comm>
void check_other_tags(Comm& comm) {
  if (comm.rank() > 1 || comm.size() < 2) return;
  auto pair = comm.subgroup({0, 1});
  int const other = 1 - pair.rank();
  std::vector<int> in(3), out(3);
  receive_work got = irecv(pair, in, other, 7, {.timeout = std::chrono::seconds(2)});
  isend(pair, out, other, 8).wait();
  error const e = error_of([&] { got.wait(); });
  expect_error(e, error_code::timeout, ", tag 8 has arrived, which no receive matches");
  expect_error(e, error_code::timeout, "; check the ranks and tags of the sends and receives");
  auto long_pair = comm.subgroup({0, 1});
  std::vector<int> data(200000);
  options const soon{.timeout = std::chrono::seconds(2)};
  error const of_long = error_of([&] {
    if (long_pair.rank() == 0) send(long_pair, data, 1, 8, soon);
    else recv(long_pair, data, 0, 7, soon);
  });
  expect_error(of_long, error_code::timeout, "; the tags of these two differ");
  expect_error(of_long, error_code::timeout, "; check the ranks and tags of the sends and receives");
}

// A rank that makes another call, and one that has closed its communicator.
template <class Comm>
void check_absent_ranks(Comm& comm) {
  std::vector<int> data(200000);
  options const soon{.timeout = std::chrono::milliseconds(300)};
  if (comm.rank() > 1) return;
  for (bool const started : {false, true}) {
    auto pair = comm.subgroup({0, 1});
    int through = 0;
    if (pair.rank() == 1) {
      recv(comm, std::span(&through, 1), 0);  // in another call
      continue;
    }
    auto const run = [&] {
      if (started) isend(pair, data, 1, 0, soon).wait();
      else send(pair, data, 1, 0, soon);
    };
    expect_error(error_of(run), error_code::timeout, "rank 1 is ");
    send(comm, std::span(&through, 1), 1);
  }
  auto pair = comm.subgroup({0, 1});
  if (pair.rank() == 1) {
    send(pair, data, 0, 7);
    send(pair, std::span(data).first(3), 0, 8);
    send(pair, std::span(data).first(3), 0, 9);
    return;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  recv(pair, data, 1, 7);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  expect(recv(pair, data, 1, any_tag) == received{1, 8, 3}, "a message that a rank sent before it left is lost");
  error const left = error_of([&] { recv(pair, data, any_source); });
  expect_error(left, error_code::rank_left,
               "rank 1 closed its communicator, while rank 0 is in recv of up to 200000 int from any rank, tag 0");
  expect_error(left, error_code::rank_left,
               "a message of 12 bytes of int from rank 1, tag 9 has arrived, which no receive matches");
  expect_error(left, error_code::rank_left, "; check the ranks and tags of the sends and receives");
}

// A thread drives messages that this rank does not poll.
template <class Comm>
void check_messages_by_thread(Comm& comm) {
  progress_thread const moves_messages;
  int const p = comm.size(), me = comm.rank();
  for (int round = 0; round < 10; ++round) {
    std::vector<int> out(50000, me), in(out.size());
    receive_work const incoming = irecv(comm, in, (me + p - 1) % p);
    work const outgoing = isend(comm, out, (me + 1) % p);
    auto const until = detail::deadline::after(std::chrono::seconds(20));
    while (!(outgoing.done() && incoming.done()) && !until.passed())
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    expect(incoming.done() && outgoing.done() && in.back() == (me + p - 1) % p, "the thread has not moved a message");
    barrier(comm);
  }
}

// Each rank sends to the next, also to itself, messages whose lengths the receiver learns by probes.
template <class Comm>
void check_probes(Comm& comm) {
  int const p = comm.size(), me = comm.rank(), right = (me + 1) % p, left = (me + p - 1) % p;
  expect(probe(comm, no_rank) == probed{no_rank, any_tag, 0}, "a probe of no_rank found something");
  expect(iprobe(comm, no_rank) == probed{no_rank, any_tag, 0}, "a probe of no_rank found something");
  expect(!iprobe(comm, any_source, 99), "a probe found a message that nobody sent");
  std::vector<int> claimed(3);
  receive_work matched = irecv(comm, claimed, left, 9);  // gets its message before any probe does
  std::vector<work> sent;
  auto const mine = numbered<int>(3, 1);
  sent.push_back(isend(comm, mine, right, 9));
  std::uint32_t seed = 0;
  std::vector<std::vector<int>> arrays;
  for (std::size_t const count : message_counts())
    arrays.push_back(numbered<int>(count, ++seed + 100 * static_cast<std::uint32_t>(me)));
  for (auto const& array : arrays) sent.push_back(isend(comm, array, right, 4));
  sent.push_back(isend(comm, mine, right, 6));
  expect(probe(comm, left, 6) == probed{left, 6, 3 * sizeof(int)},
         "a probe found another message than its tag asks for");
  seed = 0;
  for (std::size_t const count : message_counts()) {
    probed const first = probe(comm, any_source, any_tag), again = probe(comm, left, 4);
    expect(first == probed{left, 4, count * sizeof(int)}, "a probe found another message than the first");
    expect(again == first && iprobe(comm, left, any_tag) == first, "a probe took a message away");
    std::vector<int> in(first.template count<int>());
    received const got = recv(comm, in, first.source, first.tag);
    expect_message(in, got, count, ++seed + 100 * static_cast<std::uint32_t>(left), left, 4);
  }
  expect(!iprobe(comm, left, 4), "a probe found a message that was received");
  std::vector<int> last(3);
  recv(comm, last, left, 6);
  expect(matched.get().count == 3 && claimed == last, "a probe took a message from a receive");
  wait_for_all(sent);
  barrier(comm);  // no probe of the above finds what follows

  if (me == 0) {  // polls until the others, who wait meanwhile, have sent
    for (int from = 1; from < p; ++from) send(comm, mine, from, 1);
    for (int others = p - 1; others > 0; --others) {
      std::optional<probed> next;
      while (!(next = iprobe(comm, any_source, 2))) std::this_thread::yield();
      std::vector<char> name(next->template count<char>());
      expect(recv(comm, name, next->source, 2).count == static_cast<std::size_t>(next->source),
             "a message of another length");
    }
  } else {
    expect(probe(comm, any_source, 1).bytes == 3 * sizeof(int), "a probe that waited found something else");
    recv(comm, last, 0, 1);
    send(comm, std::string(static_cast<std::size_t>(me), 'x'), 0, 2);
  }
  expect_error(error_of([&] { static_cast<void>(probe(comm, p)); }), error_code::bad_argument, "probe names rank");
  expect_error(error_of([&] { static_cast<void>(iprobe(comm, 0, -3)); }), error_code::bad_argument,
               "iprobe has tag -3");
}

// Where messages of all ranks have arrived, receives and probes from any source take turns.
template <class Comm>
void check_turns(Comm& comm) {
  int const p = comm.size();
  for (bool const probes : {false, true}) {
    std::array<int, 1> const mine{comm.rank()};
    for (int i = 0; comm.rank() != 1 && i < 2; ++i) send(comm, mine, 1);
    barrier(comm);
    std::vector<int> taken(static_cast<std::size_t>(p));
    for (int i = 0; comm.rank() == 1 && i < 2 * (p - 1); ++i) {
      int const from = probes ? probe(comm, any_source).source : any_source;
      std::array<int, 1> in{};
      int const turns = ++taken[static_cast<std::size_t>(recv(comm, in, from).source)];
      expect(turns == 1 + i / (p - 1), "a rank was served twice while another waited");
    }
    barrier(comm);
  }
}

// Several threads of a rank probe, each for messages of its own tag.
template <class Comm>
void check_probes_of_threads(Comm& comm) {
  int const p = comm.size(), me = comm.rank();
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int tag = 0; tag < 3; ++tag)
      threads.emplace_back([&, tag] {
        for (std::size_t count = 1; count <= 50; ++count) {
          std::vector<int> const out(count, tag);
          work sent = isend(comm, out, (me + 1) % p, tag);
          probed const next = probe(comm, any_source, tag);
          std::vector<int> in(next.template count<int>());
          recv(comm, in, next.source, tag);
          if (in != out) ++wrong;
          sent.wait();
        }
      });
  }
  expect(wrong == 0, "a thread got a message of another");
}

// Probes for messages that never come: a deadline, and a rank that has closed its communicator.
template <class Comm>
void check_probes_in_vain(Comm& comm) {
  if (comm.rank() > 1) return;
  {
    auto pair = comm.subgroup({0, 1});
    auto const run = [&] {
      if (pair.rank() == 0) static_cast<void>(probe(pair, 1, 4, {.timeout = std::chrono::milliseconds(300)}));
      else barrier(pair);
    };
    error const e = error_of(run);
    expect_error(e, error_code::timeout,
                 "probe for a message from rank 1, tag 4 on rank 0 did not complete within 0.3 s; rank 1 is in ");
    expect_error(e, error_code::timeout,
                 "; check the ranks and tags of the sends and receives; if a rank is only late");
  }
  {  // A receive is examined although the rank only looks for another message.
    auto pair = comm.subgroup({0, 1});
    auto const run = [&] {
      if (pair.rank() != 0) return barrier(pair);
      std::vector<int> never(1);
      auto w = irecv(pair, never, 1, 5, {.timeout = std::chrono::milliseconds(300)});
      while (!iprobe(pair, 1, 6)) static_cast<void>(w.test());
    };
    expect_error(error_of(run), error_code::timeout, "recv of up to 1 int from rank 1, tag 5");
  }
  for (bool const once : {false, true}) {
    auto pair = comm.subgroup({0, 1});
    if (pair.rank() == 1) {
      send(pair, std::vector<int>(5), 0);
      continue;  // closes it
    }
    auto const look = [&](int tag) {
      if (!once) return probe(pair, 1, tag);
      for (;;)
        if (auto const found = iprobe(pair, 1, tag)) return *found;
    };
    expect(look(any_tag) == probed{1, 0, 5 * sizeof(int)}, "a message that a rank sent before it left is lost");
    expect_error(error_of([&] { look(3); }), error_code::rank_left,
                 "rank 1 closed its communicator, while rank 0 is in probe for a message from rank 1, tag 3");
  }
  {  // No message has arrived.
    auto pair = comm.subgroup({0, 1});
    if (pair.rank() == 0)
      expect_error(error_of([&] { static_cast<void>(probe(pair, 1, 3)); }), error_code::rank_left,
                   "; check the ranks and tags of the sends and receives");
  }
}

template <class Comm>
void check_messages(Comm& comm) {
  check_probes(comm);
  check_arguments_of_messages(comm);
  check_ways_to_send(comm);
  check_beside_calls(comm);
  check_batched_messages(comm);
  for (unsigned seed = 0; seed < 4; ++seed) check_random_mesh(comm, seed, sanitized ? 60 : 200);
  if (comm.size() == 1) return;
  check_order(comm);
  check_empty_offer(comm);
  check_flood(comm);
  check_messages_end_with_fault(comm);
}

}  // namespace tutti::testing
