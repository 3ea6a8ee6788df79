// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank dies before its first store to shared memory, its second, and so on, in whatever ranks do over shm: the others
// name it, shrink the communicator and compute the right sum. By default a sample of deaths per scenario;
// TUTTI_TEST_DEATHS=1000000 makes it all of them, TUTTI_TEST_SCENARIO=shrink those of scenarios with this word, and
// TUTTI_TEST_FIRST=2500 leaves out that many at the start of each scenario.
// labels: processes alone waits optimised native
// timeout: 200
#include "support/death_at_store.hpp"

#include <doctest/doctest.h>

#if defined(TUTTI_TEST_KILLS_AT_STORES)

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

using job_communicator = communicator<shm>;

constexpr int most_ranks = 4;

struct scenario {
  enum places { in_init, in_body };

  std::string name;
  int ranks;
  std::function<void(job_communicator&)> body;
  places where = in_body;
  int dies_before = -1;                              // a further rank, which is dead when the others come to the body
  bool revokes = false;                              // so survivors may learn of that instead
  std::function<void(job_communicator&)> prepare{};  // what all ranks do before the body, unharmed
};

// The store before which a rank dies; 0: it only counts its stores.
struct death {
  int rank;
  std::uint64_t store;
};
using deaths = std::vector<death>;

bool kills(deaths const& all, int rank) {
  return std::ranges::any_of(all, [&](death const& d) { return d.rank == rank && d.store != 0; });
}

// What the ranks of one run have seen, in memory that their parent reads.
struct log_of_run {
  std::atomic<std::int64_t> died, noticed;  // when; the latest rank that noticed
  std::atomic<std::uint64_t> stores[most_ranks];
};

std::int64_t ticks() { return deadline::clock::now().time_since_epoch().count(); }

// Survivors that have no communicator yet cannot shrink one.
void expect_victim(error const& e, int peer, scenario const& s, deaths const& all, log_of_run& log) {
  log.noticed = std::max(log.noticed.load(), ticks());
  bool const guilty = peer >= 0 && (kills(all, peer) || peer == s.dies_before);
  expect(guilty && e.code() == error_code::rank_lost, std::string("the loss was reported as: ") + e.what());
}

// The survivors' sum of powers of two tells who took part in it.
void expect_survivors_compute(job_communicator comm, int name, int survivors) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    try {
      comm = comm.shrink();
      std::vector<int> sum(1000, 1 << name);
      all_reduce(comm, sum);
      expect(sum[999] == survivors, "another rank takes part, or one of the survivors does not");
      comm.agree();  // nobody leaves while others still read
      return;
    } catch (error const& e) {
      expect(e.code() == error_code::rank_lost, e.what());
    }
  }
  expect(false, "the survivors cannot go on");
}

void be_rank(scenario const& s, int rank, deaths const& all, log_of_run& log) {
  auto const mine = std::ranges::find(all, rank, &death::rank);
  bool const doomed = mine != all.end(), somebody_dies = std::ranges::any_of(all, &death::store);
  auto const arm = [&] {
    death_at_store::arm(mine->store, [&] {
      log.died = ticks();
      death_at_store::die();
    });
  };
  auto const survive_body = [&] {
    if (!doomed) return;
    log.stores[rank] = death_at_store::disarm();
    if (mine->store == 0) return;
    log.died = ticks();  // fewer stores than in the run that counted them
    ::kill(::getpid(), SIGKILL);
  };
  std::optional<job_communicator> comm;
  try {
    if (doomed && s.where == scenario::in_init) arm();
    comm.emplace(init());
    if (s.where == scenario::in_init) survive_body();
  } catch (error const& e) {
    return expect_victim(e, e.peer(), s, all, log);
  }
  if (s.where == scenario::in_init && somebody_dies) return;  // others may have left with an error
  if (s.prepare) s.prepare(*comm);
  comm->agree();
  if (rank == s.dies_before) ::kill(::getpid(), SIGKILL);
  if (s.where == scenario::in_body) {
    if (doomed) arm();
    try {
      s.body(*comm);
      if (!doomed && somebody_dies) barrier(*comm);  // ends with an error, unless the body has left the victims out
    } catch (error const& e) {
      if (!(s.revokes && e.code() == error_code::revoked)) {
        expect(somebody_dies || s.dies_before >= 0, e.what());
        auto const names = comm->survivors();  // of the ranks of a communicator that has shrunk
        bool const renumbered = !names.empty() && e.peer() >= 0;
        expect_victim(e, renumbered ? names[static_cast<std::size_t>(e.peer())] : e.peer(), s, all, log);
      }
    }
    survive_body();
  }
  if (!somebody_dies && s.dies_before < 0) {
    comm->agree();
    return;
  }
  int survivors = 0;
  for (int r = 0; r < s.ranks; ++r)
    if (r != s.dies_before && !kills(all, r)) survivors |= 1 << r;
  expect_survivors_compute(std::move(*comm), rank, survivors);
}

// Runs all ranks; returns why the run is wrong, if it is.
std::string run_once(scenario const& s, deaths const& all, log_of_run& log) {
  static int runs = 0;
  std::string const job = "death-" + std::to_string(::getpid()) + "-" + std::to_string(++runs);
  log.died = log.noticed = 0;
  std::array<pid_t, most_ranks> ranks{};
  for (int r = 0; r < s.ranks; ++r)
    ranks[static_cast<std::size_t>(r)] = fork_rank(job, r, s.ranks, "20", [&] { be_rank(s, r, all, log); });
  return end_of_ranks(std::span(ranks).first(static_cast<std::size_t>(s.ranks)), 60s, [&](int r, int status) {
    return kills(all, r) || r == s.dies_before ? was_killed(status) : status == 0;
  });
}

// Of ones. A barrier, if the algorithm does not have the protocol.
void check_sum(job_communicator& comm, std::span<float> ones, options const& how) {
  try {
    all_reduce(comm, ones, how);
    expect(ones.back() == static_cast<float>(comm.size()), "a sum is wrong");
  } catch (error const& e) {
    if (e.code() != error_code::bad_argument) throw;
    barrier(comm);
  }
}

void shrinks(job_communicator& comm) { comm = comm.shrink(); }

// Calls on arrays of allocate, in which each element that a rank writes is a store that others see.
void add_in_shared_memory(std::vector<scenario>& out) {
  // Filled before stores are counted, and never destroyed, because its rank may have left its communicator.
  static std::optional<shared_array<float, shm>> array;
  auto const add = [&](std::string const& what, std::size_t count, auto call, std::string const& how = "") {
    out.push_back({join({what, " of ", count, " in shared memory", how}), 3,
                   [=](auto& comm) { call(comm, std::span<float>(array->begin(), array->end())); }});
    out.back().prepare = [=](auto& comm) {
      array.emplace(comm.template allocate<float>(count));
      std::fill(array->begin(), array->end(), 1.0f);
    };
  };
  for (algorithm_id const id :
       {algorithm_id::ring, algorithm_id::recursive_doubling, algorithm_id::one_shot, algorithm_id::two_shot,
        algorithm_id::binomial_tree, algorithm_id::double_binary_tree}) {
    auto const by = [&](protocol how, std::size_t count) {
      add(
          "all_reduce", count,
          [=](auto& comm, auto data) { check_sum(comm, data, {.algorithm = id, .protocol = how}); },
          join({" by ", name(id), ", ", name(how)}));
    };
    for (protocol const how : {protocol::automatic, protocol::direct, protocol::pull}) by(how, 90);
    by(protocol::automatic, 4200);  // two slices
  }
  add("broadcast", 90, [](auto& comm, auto data) { broadcast(comm, data, 1); });
  add("all_gather", 90, [](auto& comm, auto data) {
    all_gather(comm, data.subspan(30 * static_cast<std::size_t>(comm.rank()), 30), data);
  });
  add("all_to_all", 90, [](auto& comm, auto data) {
    std::vector<float> got(data.size());
    all_to_all(comm, data, got);
  });
  add("send_recv", 90, [](auto& comm, auto data) {
    send_recv(comm, data.first(45), (comm.rank() + 1) % 3, data.last(45), (comm.rank() + 2) % 3);
  });
}

std::vector<scenario> scenarios() {
  std::vector<scenario> out;
  auto const add = [&](std::string name, auto body) { out.push_back({std::move(name), 3, body}); };
  out.push_back({"init", 3, {}, scenario::in_init});
  add("barrier", [](auto& comm) { barrier(comm); });
  for (algorithm_id const id : {algorithm_id::ring, algorithm_id::recursive_doubling, algorithm_id::one_shot,
                                algorithm_id::two_shot, algorithm_id::binomial_tree, algorithm_id::double_binary_tree})
    for (protocol const how : {protocol::automatic, protocol::staged, protocol::direct, protocol::pull})
      for (std::size_t const count : {2u, 6000u})
        add("all_reduce of " + std::to_string(count) + " by " + std::string(name(id)) + ", " + std::string(name(how)),
            [=](auto& comm) {
              std::vector<float> ones(count, 1);
              check_sum(comm, ones, {.algorithm = id, .protocol = how});
            });
  add("broadcast", [](auto& comm) {
    std::vector<int> data(6000, comm.rank());
    broadcast(comm, data, 1);
    expect(data[5999] == 1, "a broadcast is wrong");
  });
  add("all_gather", [](auto& comm) { expect(all_gather(comm, comm.rank())[2] == 2, "a value is wrong"); });
  add("all_to_all", [](auto& comm) {
    std::vector<int> in(3000, comm.rank()), got(3000);
    all_to_all(comm, in, got);
    expect(got[2999] == 2, "a block is wrong");
  });
  add("started calls", [](auto& comm) {
    std::vector<float> small(2, 1), large(6000, 1);
    work first = all_reduce(async(comm), large), second = all_reduce(async(comm), small);
    second.wait();
    first.wait();
  });
  add("prepared calls", [](auto& comm) {
    std::vector<float> some(3000, 1);
    persistent sum = all_reduce(prepared(comm), some);
    for (int i = 0; i < 2; ++i) {
      sum.start();
      sum.wait();
    }
  });
  for (std::size_t const count : {5u, 3000u, 50000u})
    add("messages of " + std::to_string(count), [=](auto& comm) {
      int const right = (comm.rank() + 1) % 3, left = (comm.rank() + 2) % 3;
      std::vector<int> give(count, comm.rank()), got(count), more(count);
      send_recv(comm, give, right, got, left);
      receive_work incoming = irecv(comm, more, left, 1);
      work outgoing = isend(comm, give, right, 1);
      incoming.wait();
      outgoing.wait();
      expect(got.back() == left && more.back() == left, "a message is wrong");
    });
  auto const reports = [](job_communicator& comm) {
    if (comm.rank() != 0) std::this_thread::sleep_for(10ms);  // so it is rank 0 that reports
    barrier(comm);
  };
  out.push_back({"reporting a loss", 4, reports, scenario::in_body, 3});
  add("split", [](auto& comm) {
    auto part = comm.split(0).value();
    barrier(part);
  });
  add("closing a group", [](auto& comm) { static_cast<void>(comm.subgroup({0, 1, 2})); });
  add("allocate", [](auto& comm) {
    auto const memory = comm.template allocate<float>(2);
    memory[1] = 1;
    barrier(comm);
  });
  add_in_shared_memory(out);
  add("agree", [](auto& comm) { comm.agree(6); });
  add("revoke", [](auto& comm) {
    if (comm.rank() == 0) comm.revoke("enough");
  });
  out.back().revokes = true;
  auto const shrinks = [](auto& comm) { comm = comm.shrink(); };
  out.push_back({"shrink", 3, shrinks, scenario::in_body, -1, true});
  out.push_back({"shrink after another loss", 4, shrinks, scenario::in_body, 3, true});
  return out;
}

// The log, and what the environment asks for.
class laboratory {
 public:
  laboratory() : log(*new(shared_memory()) log_of_run{}) {}

  log_of_run& log;

  static std::uint64_t most_deaths(std::uint64_t usual) { return number_in("TUTTI_TEST_DEATHS", usual); }
  static std::uint64_t first_death() { return number_in("TUTTI_TEST_FIRST", 0); }
  static bool wants(scenario const& s) {
    char const* const only = std::getenv("TUTTI_TEST_SCENARIO");
    return only == nullptr || s.name.find(only) != s.name.npos;
  }

  // How many stores each rank makes if nobody dies in the body.
  std::array<std::uint64_t, most_ranks> count(scenario const& s) {
    std::array<std::uint64_t, most_ranks> out{};
    for (int r = 0; r < s.ranks; ++r) {
      if (r == s.dies_before) continue;
      CHECK_MESSAGE(run_once(s, {{r, 0}}, log) == "", s.name, " without a death");
      out[static_cast<std::size_t>(r)] = log.stores[r];
    }
    return out;
  }
  void run(scenario const& s, deaths const& all) {
    std::string const wrong = run_once(s, all, log);
    std::string who;
    for (death const& d : all)
      who += "rank " + std::to_string(d.rank) + " dies before store " + std::to_string(d.store) + ", ";
    CHECK_MESSAGE(wrong == "", s.name, ": ", who, "and", wrong);
    if (log.noticed != 0) longest_ = std::max(longest_, log.noticed - log.died);
  }
  void report(scenario const& s, std::uint64_t stores, std::uint64_t runs) {
    std::printf("%-60s %8llu stores, %7llu runs, noticed within %.1f ms\n", s.name.c_str(),
                static_cast<unsigned long long>(stores), static_cast<unsigned long long>(runs),
                static_cast<double>(std::exchange(longest_, 0)) / 1e6);
    std::fflush(stdout);
  }

 private:
  static std::uint64_t number_in(char const* variable, std::uint64_t otherwise) {
    char const* const text = std::getenv(variable);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
  }
  static void* shared_memory() {
    void* const at = ::mmap(nullptr, sizeof(log_of_run), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(at != MAP_FAILED);
    return at;
  }

  std::int64_t longest_ = 0;
};

}  // namespace

TEST_CASE("whatever store a rank dies before, the others name it and go on") {
  laboratory here;
  for (scenario const& s : scenarios()) {
    if (!here.wants(s)) continue;
    auto const stores = here.count(s);
    std::uint64_t const all = std::accumulate(stores.begin(), stores.end(), std::uint64_t{0}),
                        runs = std::min(all, here.most_deaths(8));
    REQUIRE(all > 0);
    for (std::uint64_t i = here.first_death(); i < runs; ++i) {
      death d{0, i * all / runs + 1};
      for (; d.store > stores[static_cast<std::size_t>(d.rank)]; ++d.rank)
        d.store -= stores[static_cast<std::size_t>(d.rank)];
      here.run(s, {d});
    }
    here.report(s, all, runs);
  }
}

TEST_CASE("whatever stores two ranks die before in shrink, the others go on") {
  laboratory here;
  scenario s{"", 4, shrinks, scenario::in_body, -1, true};
  for (auto const& [first, second] : {std::pair{0, 1}, std::pair{0, 2}, std::pair{1, 2}}) {
    s.name = "two deaths in shrink, of ranks " + std::to_string(first) + " and " + std::to_string(second);
    if (!here.wants(s)) continue;
    auto const stores = here.count(s);
    std::uint64_t const each = stores[static_cast<std::size_t>(second)],
                        pairs = stores[static_cast<std::size_t>(first)] * each,
                        runs = std::min(pairs, here.most_deaths(20));
    REQUIRE(pairs > 0);
    for (std::uint64_t i = here.first_death(); i < runs; ++i) {
      std::uint64_t const pair = i * pairs / runs;
      here.run(s, {{first, pair / each + 1}, {second, pair % each + 1}});
    }
    here.report(s, pairs, runs);
  }
}

#else
TEST_CASE("stores can be counted only on x86-64" * doctest::skip()) {}
#endif
