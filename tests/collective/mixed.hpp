// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random sequences of collectives without a pause between them: no call may disturb the next.
#pragma once

#include <array>
#include <chrono>
#include <random>
#include <thread>
#include <type_traits>

#include "support/conformance.hpp"
#include "support/sanitized.hpp"

namespace tutti::testing {

template <class Comm>
class random_sequence {
 public:
  // Equal seeds on all ranks give equal sequences.
  random_sequence(Comm& comm, unsigned seed) : comm_(comm), check_(comm), random_(seed) {}

  void check(int calls) {
    for (int i = 0; i < calls; ++i) {
      if (std::size_t const lot = pick(200); lot == 0) be_late();
      else if (lot < 2) run_ahead();
      else any_call();
    }
  }

 private:
  std::size_t pick(std::size_t below) { return random_() % below; }
  int any_rank() { return static_cast<int>(pick(static_cast<std::size_t>(comm_.size()))); }

  // Mostly sizes that fit into packets, sometimes a few slices, rarely several runs of them.
  std::size_t any_count() {
    switch (pick(6)) {
      case 0: return pick(25) == 0 ? pick(300000) : pick(9000);
      case 1:
      case 2: return pick(700);
      default: return pick(20);
    }
  }

  void any_call() {
    auto const c = every_collective[pick(every_collective.size())];
    auto id = static_cast<algorithm_id>(pick(algorithms::size + 1));
    if (!detail::objection(id, {c, 8, comm_.size(), true}).empty()) id = algorithm_id::automatic;
    bool const chosen = id != algorithm_id::automatic;
    std::size_t const count = any_count();
    auto how =
        std::array{protocol::automatic, protocol::staged, protocol::direct, protocol::pull, protocol::packet}[pick(5)];
    if (!chosen || !possible(comm_, find_schedule(id, c), c, id, how, count * sizeof(float))) how = protocol::automatic;
    trial const t{.options = {.algorithm = id, .protocol = how},
                  .count = count,
                  .root = any_rank(),
                  .in_place = pick(2) == 0,
                  .shared = any_memory()};
    if (pick(5) == 0 && how != protocol::packet && (!chosen || find_schedule(id, c).ragged))
      check_.template check_ragged<float>(c, t, sum{});
    else check_.template check<float>(c, t, sum{});
  }

  // Whether this rank brings buffers from comm.allocate, as all ranks, none or half of them do.
  bool any_memory() {
    std::size_t const which = pick(3);
    return which < 2 ? which == 0 : comm_.rank() % 2 == 0;
  }

  // The others nap before this rank arrives.
  void be_late() {
    if (comm_.rank() == any_rank()) std::this_thread::sleep_for(2 * detail::patience_sharing_cores.yields);
    any_call();
  }

  // Small rooted calls, in the first of which one rank is late: a root that hears from no other runs ahead by as many
  // calls as there are sets of packets, and then has to wait for it.
  void run_ahead() {
    int const late = any_rank();
    if (comm_.rank() == late) std::this_thread::sleep_for(std::chrono::microseconds(100));
    constexpr bool packets = detail::shares_packets<std::remove_reference_t<decltype(comm_.engine().transport())>>;
    // More calls than there are sets of packets, or slots between 2 ranks.
    bool const slots = pick(2) == 0;
    auto const how = slots ? protocol::staged : packets ? protocol::packet : protocol::automatic;
    std::size_t const calls = slots ? 150 : 3 * detail::far_sets_sharing_cores;
    auto c = collective::broadcast;
    int root = any_rank();
    for (std::size_t i = 0; i < calls; ++i) {
      if (pick(8) == 0)
        c = std::array{collective::broadcast, collective::scatter, collective::reduce, collective::gather}[pick(4)];
      if (pick(8) == 0) root = any_rank();
      check_.template check<float>(c,
                                   {.options = {.algorithm = algorithm_id::one_shot, .protocol = how},
                                    .count = pick(3) == 0 ? 60 : pick(20),
                                    .root = root,
                                    .in_place = pick(2) == 0},
                                   sum{});
    }
  }

  Comm& comm_;
  conformance<Comm> check_;
  std::mt19937 random_;
};

inline constexpr int many_calls = sanitized ? 1000 : 5000;

template <class Comm>
void check_random_sequence(Comm& comm, unsigned seed, int calls) {
  random_sequence<Comm>(comm, seed).check(calls);
}

}  // namespace tutti::testing
