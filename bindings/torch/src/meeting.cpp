// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "meeting.hpp"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "tutti/core/process.hpp"
#include "tutti/core/random.hpp"
#include "tutti/core/text.hpp"
#include "tutti/launch/meeting.hpp"
#include "tutti/transport/absence.hpp"

namespace tutti_torch {
namespace {

// How far shared memory reaches: containers of a machine have names of their own, and two machines may have one name.
std::string machine() {
  char host[256]{};
  ::gethostname(host, sizeof host - 1);
  return tutti::detail::join({host, " (system ", tutti::detail::running_system(), ")"});
}

std::string text_of(std::vector<std::uint8_t> const& bytes) { return {bytes.begin(), bytes.end()}; }

constexpr std::chrono::milliseconds longest_pause(20);  // between two looks into the store

}  // namespace

std::weak_ptr<group>& world() {
  static std::weak_ptr<group> one;
  return one;
}

communicator meet(c10d::Store& store, int rank, int size, tutti::detail::countdown& until,
                  std::vector<int> const& members) {
  auto const gone = [&, all = world().lock()](int r) {
    if (!all || members.empty()) return false;
    auto const& ranks = all->comm.engine().transport();
    int const member = members[static_cast<std::size_t>(r)];
    return ranks.lost(member) || ranks.left(member);
  };
  static constexpr char way_out[] =
      "let all its ranks create the group, or pass a longer timeout to init_process_group or new_group";
  std::string const here = machine(), key = "tutti/meeting";
  if (rank == 0) store.set(key, here + '\n' + tutti::detail::join({"torch-", tutti::detail::random_number()}));
  for (std::chrono::milliseconds pause(1);; pause = std::min(2 * pause, longest_pause)) {
    for (int r = 0; r < size; ++r)
      if (r != rank && gone(r)) throw tutti::detail::rank_gone(rank, r);
    if (store.check({key})) break;
    if (until.passed())
      throw tutti::error({.code = tutti::error_code::timeout,
                          .rank = rank,
                          .peer = 0,
                          .what = "rank 0 has not created the group in time",
                          .way_out = way_out});
    std::this_thread::sleep_for(pause);
  }
  std::string const found = text_of(store.get(key));
  std::string const there = found.substr(0, found.find('\n'));
  TORCH_CHECK(there == here, "tutti: rank ", rank, " is on ", here, ", but rank 0 is on ", there,
              "; this backend communicates through shared memory, so start all ranks on one machine");
  communicator met = tutti::detail::meet_as_rank(found.substr(there.size() + 1), rank, size, until, {},
                                                 {.gone = gone, .way_out = way_out, .watch_all = true});
  // All have read it. A later group of the same store must not.
  if (rank == 0) store.deleteKey(key);
  return met;
}

}  // namespace tutti_torch
