// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A progress thread beside all that a rank does otherwise, while its calls and messages are in flight.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collective/stress.hpp"
#include "support/expect.hpp"

namespace tutti::testing {

// Calls of several sizes and a message to each neighbour in a ring, with what they should bring.
template <class Comm>
class traffic {
 public:
  explicit traffic(Comm& comm) : comm_(comm) {
    int const p = comm.size(), me = comm.rank();
    incoming_.resize(30000);
    in_flight_.push_back(irecv(comm, incoming_, (me + p - 1) % p, 3));
    for (std::size_t const count : {1U, 300U, 40000U, 7U}) sums_.emplace_back(count, me + 1);
    for (auto& s : sums_) in_flight_.push_back(all_reduce(async(comm), s));
    outgoing_.assign(incoming_.size(), me);
    in_flight_.push_back(isend(comm, outgoing_, (me + 1) % p, 3));
  }
  void expect_right() {
    wait_for_all(in_flight_);
    int const p = comm_.size(), me = comm_.rank();
    for (auto const& s : sums_) expect(s.front() == p * (p + 1) / 2 && s.back() == s.front(), "a sum is wrong");
    expect(incoming_.front() == (me + p - 1) % p && incoming_.back() == incoming_.front(), "a message is wrong");
  }
  // Each has ended well, or with this.
  void expect_ended(error_code code) {
    for (work& w : in_flight_) {
      try {
        w.wait();
      } catch (error const& e) {
        expect(e.code() == code, e.what());
      }
    }
  }

 private:
  Comm& comm_;
  std::vector<std::vector<int>> sums_;
  std::vector<int> incoming_, outgoing_;
  std::vector<work> in_flight_;
};

// Messages, groups, agreements, records and memory, while calls are in flight and nobody waits for them. `agrees`: the ranks
// can.
template <class Comm>
void check_beside_calls_in_flight(Comm& comm, bool agrees, std::string const& record) {
  int const p = comm.size(), me = comm.rank(), right = (me + 1) % p, left = (me + p - 1) % p;
  for (unsigned round = 0; round < 4; ++round) {
    traffic all(comm);
    std::vector<int> out(round % 2 == 0 ? 5 : 20000, me), in(out.size());
    send_recv(comm, out, right, in, left);
    expect(in.back() == left, "a message is wrong");
    if (agrees) expect(comm.agree(me == 0 ? 6 : 3).flags == (p > 1 ? 2 : 6), "the flags are wrong");
    std::vector<int> ranks;
    for (int r = p - 1; r >= 0; --r) ranks.push_back(r);
    auto group = comm.subgroup(ranks);
    traffic of_group(group);
    comm.write_record(record);
    auto const memory = comm.template allocate<int>(1000);
    expect(memory[999] == 0, "memory is not zeroed");
    auto const counted = [&] { return comm.statistics(collective::all_reduce).calls; };
    expect(counted() <= 4U * (round + 1), "a call was counted twice");
    of_group.expect_right();
    barrier(group);
    all.expect_right();
    expect(counted() == 4U * (round + 1), "a call was not counted");
  }
}

// A rank revokes a group whose calls and messages are in flight, while the thread of one waits for a message that never comes
// and those of others for a call, and their progress threads find the same fault.
template <class Comm>
void check_revoked_in_flight(Comm& comm, bool agrees) {
  int const p = comm.size(), me = comm.rank();
  std::vector<int> ranks;
  for (int r = 0; r < p; ++r) ranks.push_back(r);
  for (int round = 0; round < 4; ++round) {
    Comm group = comm.subgroup(ranks);
    traffic all(group);
    traffic more(group);
    barrier(comm);  // all have started theirs
    std::vector<int> never(10);
    if (me == round % p) group.revoke("enough");
    else if (me % 2 == 0)
      expect_error(error_of([&] { recv(group, never, any_source, 9); }), error_code::revoked, "enough");
    else
      expect_error(error_of([&] {
                     for (;;) barrier(group);
                   }),
                   error_code::revoked, "enough");
    if (agrees) group.agree();
    all.expect_ended(error_code::revoked);
    more.expect_ended(error_code::revoked);
    if (!agrees) continue;
    traffic rest(comm);
    Comm survivors = group.shrink();
    traffic(survivors).expect_right();
    barrier(survivors);
    rest.expect_right();
  }
}

// Ranks shrink a communicator whose calls are in flight.
template <class Comm>
void check_shrunk_in_flight(Comm& comm) {
  std::vector<int> ranks;
  for (int r = 0; r < comm.size(); ++r) ranks.push_back(r);
  for (int round = 0; round < 3; ++round) {
    Comm group = comm.subgroup(ranks);
    traffic all(group);
    barrier(comm);
    Comm survivors = group.shrink();
    traffic other(survivors);
    expect(survivors.size() == comm.size(), "nobody has gone, and shrink has lost somebody");
    all.expect_ended(error_code::revoked);
    other.expect_right();
    barrier(survivors);
  }
}

template <class Comm>
void check_beside_progress_thread(Comm& comm, bool agrees, std::string const& record) {
  progress_thread const moves_all;
  check_beside_calls_in_flight(comm, agrees, record);
  if (comm.size() > 1) check_revoked_in_flight(comm, agrees);
  if (agrees) check_shrunk_in_flight(comm);
}

}  // namespace tutti::testing
