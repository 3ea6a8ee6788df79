// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When one call or message throws a fault, the program may release the memory of all others in flight: they have ended too,
// whichever threw, and nothing writes there when the communicator closes.
// labels: processes waits native optimised
#include <doctest/doctest.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "support/own_pages.hpp"
#include "support/system_calls.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t many = 1 << 20;

// How far the ranks are. They share it, so that neither depends on how fast the other is.
enum stage { both_begin, rank_1_has_begun, array_withdrawn, rank_1_has_ended };
class stages {
 public:
  void reach(stage s) { now_[0].store(s); }
  void await(stage s) {
    while (now_[0].load() < s) std::this_thread::sleep_for(1ms);
  }

 private:
  shared_with_forks<std::atomic<int>> now_;
};

// Rank 1 offers a message, and sends its slices only after rank 0 has withdrawn the array for it.
void message_beside_a_call(int rank, stages& all) {
  auto comm = init();
  own_pages array(many);
  if (rank == 0) {
    all.await(rank_1_has_begun);
    auto const received = irecv(comm, array.numbers(), 1);
    int one = 1;
    work sum = all_reduce(async(comm), std::span(&one, 1), tutti::sum{}, {.timeout = 300ms});
    expect_error(error_of([&] { sum.wait(); }), error_code::timeout, "all_reduce of 1 int");
    array.withdraw();
    all.reach(array_withdrawn);
    all.await(rank_1_has_ended);
  } else {
    work sent = isend(comm, array.numbers(), 0);
    all.reach(rank_1_has_begun);
    all.await(array_withdrawn);
    expect_error(error_of([&] { sent.wait(); }), error_code::timeout, "all_reduce of 1 int");
    all.reach(rank_1_has_ended);
  }
}

// Rank 1 begins a broadcast alone, and sends most of its slices only after rank 0 has withdrawn the array for it.
void call_beside_a_message(int rank, stages& all) {
  auto comm = init();
  own_pages array(many);
  options const in_slices{.protocol = protocol::staged};
  if (rank == 0) {
    all.await(rank_1_has_begun);
    work const cast = broadcast(async(comm), array.numbers(), 1, in_slices);
    std::vector<float> nothing(1);
    auto received = irecv(comm, nothing, 1, 7, {.timeout = 300ms});
    expect_error(error_of([&] { received.wait(); }), error_code::timeout, "on rank 0 did not complete");
    array.withdraw();
    all.reach(array_withdrawn);
    all.await(rank_1_has_ended);
  } else {
    work cast = broadcast(async(comm), array.numbers(), 1, in_slices);
    all.reach(rank_1_has_begun);
    all.await(array_withdrawn);
    expect_error(error_of([&] { cast.wait(); }), error_code::timeout, "on rank 0 did not complete");
    all.reach(rank_1_has_ended);
  }
}

std::string run(char const* name, void (*rank_of)(int, stages&)) {
  stages all;
  std::vector<pid_t> ranks;
  for (int r = 0; r < 2; ++r)
    ranks.push_back(fork_rank(name + std::to_string(::getpid()), r, 2, "10", [&, r] {
      // so that messages travel in slices
      expect(filter_system_calls({SYS_process_vm_readv}, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW), "no filter");
      rank_of(r, all);
    }));
  return end_of_ranks(ranks, 30s, [](int, int status) { return status == 0; });
}

}  // namespace

TEST_CASE("a message ends when a started call throws") { CHECK(run("stopped-message-", message_beside_a_call) == ""); }

TEST_CASE("a started call ends when a message throws") { CHECK(run("stopped-call-", call_beside_a_message) == ""); }
