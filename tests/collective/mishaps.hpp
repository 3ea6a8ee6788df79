// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective, by every schedule, over a transport that goes wrong at one rank: right results or errors, on all ranks.
#pragma once

#include <chrono>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/conformance.hpp"
#include "support/expect.hpp"
#include "support/faulty.hpp"

namespace tutti::testing {

inline constexpr int unlucky = 1;

struct mishap_case {
  algorithm_id id;
  collective what;
  protocol how;
  misfortune fortune;

  std::string text() const {
    constexpr std::string_view names[] = {"none", "delay", "lose", "repeat", "cut", "mistake", "kill", "mute"};
    return std::string(name(what)) + " by " + std::string(name(id)) + ", " + std::string(name(how)) + ", " +
           std::string(names[static_cast<std::size_t>(fortune.what)]) + " at message " +
           std::to_string(fortune.message);
  }
};

// These mishaps, for every schedule, at an early message or at a later one.
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

// What rank `unlucky` of these does, and the others: the same call twice, for who was sent a message twice may learn it in
// the next call over the channel. A wrong result is right as long as an error follows.
template <class Comm>
void check_mishap(Comm& comm, mishap_case const& k) {
  bool const vanishes = k.fortune.what == mishap::lose || k.fortune.what == mishap::mute;
  auto const patience = vanishes ? std::chrono::milliseconds(150) : std::chrono::milliseconds(20000);
  trial const t{.options = {.algorithm = k.id, .protocol = k.how, .timeout = patience}, .count = 10000, .root = 2};
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

}  // namespace tutti::testing
