// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective, by every schedule, and messages between two ranks, over a transport that fails at one rank: all
// ranks get right results or errors.
#pragma once

#include <chrono>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/conformance.hpp"
#include "support/expect.hpp"
#include "support/faulty.hpp"

namespace tutti::testing {

inline constexpr int mishap_ranks = 4, unlucky = 1;

struct mishap_case {
  algorithm_id id;
  collective what;
  protocol how;
  misfortune fortune;

  std::string text() const {
    return std::string(name(what)) + " by " + std::string(name(id)) + ", " + std::string(name(how)) + ", " +
           text_of(fortune);
  }
  static std::string text_of(misfortune const& m) {
    constexpr std::string_view names[] = {"none", "delay", "lose", "repeat", "cut", "mistake", "kill", "mute"};
    return std::string(names[static_cast<std::size_t>(m.what)]) + " at message " + std::to_string(m.message);
  }
};

// These failures, for every schedule, at an early message or at a later one.
inline std::vector<mishap_case> all_cases(std::vector<mishap> const& mishaps, std::vector<protocol> const& protocols) {
  std::vector<mishap_case> out;
  unsigned seed = 0;
  for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule const& s) {
    for (protocol const how : protocols)
      for (mishap const m : mishaps)
        if (how != protocol::direct || s.direct) out.push_back({id, c, how, {m, ++seed % 2 == 0 ? 4 : 1, seed}});
  });
  return out;
}

// The call of rank `unlucky` and of the others: the same call twice, because a duplicated message may be detected only
// in the next call over the channel. A wrong result is accepted if an error follows.
template <class Comm>
void check_mishap(Comm& comm, mishap_case const& k) {
  bool const vanishes = k.fortune.what == mishap::lose || k.fortune.what == mishap::mute;
  auto const patience = vanishes ? std::chrono::milliseconds(150) : std::chrono::milliseconds(20000);
  // One slice, as an eager message, or several.
  std::size_t const count = k.id == algorithm_id::one_shot && k.fortune.message == 1 ? 1000 : 10000;
  trial const t{.options = {.algorithm = k.id, .protocol = k.how, .timeout = patience}, .count = count, .root = 2};
  conformance<Comm> check(comm);
  std::string wrong;
  bool threw = false;
  for (int again = 0; again < 2 && !threw; ++again) {
    try {
      check.template check<int>(k.what, t, sum{});
    } catch (error const& e) {
      threw = true;
      expect(std::string_view(e.what()).find("rank ") != std::string_view::npos && !e.way_out().empty(),
             k.text() + ": an error that names no rank: " + e.what());
      if (k.fortune.what == mishap::kill)
        expect(e.code() == error_code::rank_lost && e.peer() == unlucky, k.text() + ": " + e.what());
    } catch (std::runtime_error const& e) {
      if (wrong.empty()) wrong = e.what();
    }
  }
  bool const fine = comm.agree(threw ? 0 : 1).flags != 0;
  error const last = error_of([&] { barrier(comm); });
  expect(fine == (last.happened() == "nothing was thrown"), k.text() + ": not all ranks have an error, or none");
  expect(wrong.empty() || (k.fortune.what == mishap::repeat && !fine), k.text() + ": " + wrong);
  if (k.fortune.what == mishap::delay || k.fortune.what == mishap::none) expect(fine, k.text() + ": " + last.what());
}

// -- Messages between two ranks.

inline std::vector<misfortune> message_fortunes(std::vector<mishap> const& mishaps) {
  std::vector<misfortune> out;
  for (mishap const m : mishaps)
    for (int const message : {1, 2, 5, 9, 14}) out.push_back({m, message, static_cast<unsigned>(out.size() + 1)});
  return out;
}

// Around the ring, in one way, with a given number of elements.
template <class Comm>
void pass_around(Comm& comm, int way, std::size_t count, options const& o) {
  int const p = comm.size(), me = comm.rank(), right = (me + 1) % p, left = (me + p - 1) % p;
  std::vector<int> out(count), in(count, -1);
  auto const value = [&](int rank, std::size_t i) { return rank * 7 + way + static_cast<int>(i); };
  for (std::size_t i = 0; i < count; ++i) out[i] = value(me, i);
  received got;
  if (way == 0) {
    got = send_recv(comm, out, right, in, left, way, o);
  } else if (way == 1) {
    receive_work incoming = irecv(comm, in, left, way, o);
    work outgoing = isend(comm, out, right, way, o);
    got = incoming.get();
    outgoing.wait();
  } else {
    got = batch(comm).send(out, right, way).recv(in, left, way).run(o)[0];
  }
  expect(got == received{left, way, count}, "a message has another source, tag or count");
  for (std::size_t i = 0; i < count; ++i) expect(in[i] == value(left, i), "a message has another element");
}

// The ranks of `sound` are the same, over a transport that works.
template <class Sound, class Comm>
void check_message_mishap(Sound& sound, Comm& comm, misfortune const& fortune) {
  std::string const text = "messages, " + mishap_case::text_of(fortune);
  bool const vanishes = fortune.what == mishap::lose || fortune.what == mishap::mute;
  options const o{.timeout = std::chrono::milliseconds(vanishes ? 1000 : 20000)};
  error const e = error_of([&] {
    for (std::size_t const count : {3u, 3000u, 60000u})
      for (int const way : {0, 1, 2}) pass_around(comm, way, count, o);
  });
  while (!comm.engine().transport().all_sent()) std::this_thread::yield();  // delayed messages
  bool const threw = e.happened() != "nothing was thrown";
  expect(!threw || e.happened().find("rank ") != std::string::npos,
         text + ": an error that names no rank: " + e.what());
  if (fortune.what == mishap::kill) {
    expect(e.code() == error_code::rank_lost && e.peer() == unlucky, text + ": " + e.what());
    return;
  }
  std::vector<int> fine{threw ? 0 : 1}, struck{comm.engine().transport().struck() ? 1 : 0};
  all_reduce(sound, fine, min{});
  all_reduce(sound, struck, max{});
  error const last = error_of([&] { barrier(comm); });
  barrier(sound);  // nobody leaves before all have checked
  expect((fine[0] != 0) == (last.happened() == "nothing was thrown"), text + ": not all ranks have an error, or none");
  bool const late = fortune.what == mishap::delay || fortune.what == mishap::none;
  expect(late || struck[0] != 0, text + ": there was no such message");
  // A duplicate of the last message need not be detected.
  expect(late == (fine[0] != 0) || fortune.what == mishap::repeat, text + ": " + last.what());
}

}  // namespace tutti::testing
