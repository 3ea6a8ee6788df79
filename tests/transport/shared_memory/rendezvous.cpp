// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// rendezvous: ranks that share only the name of their job meet, or all learn why they cannot. Ranks are threads here, and processes in
// tests/launch.
// labels: threads waits
#include <doctest/doctest.h>

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "support/system_calls.hpp"
#include "tutti/transport/shared_memory/rendezvous.hpp"
#include "tutti/transport/shared_memory/shm.hpp"
#include "tutti/transport/system/local_socket.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace std::chrono_literals;

namespace {

// A name that is unique to this run of the test.
std::string job(std::string const& name) { return "test-" + std::to_string(::getpid()) + "-" + name; }

// The result of a meeting at one rank.
struct outcome {
  ino_t file = 0;
  int seals = 0;
  int flags = 0;
  mode_t mode = 0;
  error_code code{};
  int peer = -2;
  std::string said;
};

outcome meet(std::string const& name, int rank, int ranks, deadline::clock::duration time,
             descriptor* kept_name = nullptr) {
  outcome out;
  try {
    countdown until(time);
    descriptor const file =
        rendezvous(name, rank, ranks, until, {.kept_name = kept_name}).meet([] { return shm::create(2, 1); });
    struct stat info{};
    ::fstat(file.get(), &info);
    out.file = info.st_ino;
    out.mode = info.st_mode & 0777;
    out.seals = ::fcntl(file.get(), F_GET_SEALS);
    out.flags = ::fcntl(file.get(), F_GETFD);
  } catch (error const& e) {
    out.code = e.code(), out.peer = e.peer(), out.said = e.what();
  }
  return out;
}

std::vector<outcome> meet_all(std::string const& name, std::vector<int> const& present, int ranks,
                              deadline::clock::duration time) {
  std::vector<outcome> out(present.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < present.size(); ++i)
    threads.emplace_back([&, i] { out[i] = meet(name, present[i], ranks, time); });
  threads.clear();
  return out;
}

std::string path_of(std::string const& name) { return "tutti-" + std::to_string(::geteuid()) + "-" + name; }

// A connection to rank 0 of a job, once it listens.
descriptor connect_to(std::string const& name) {
  local_address const address(name);
  descriptor out = make_local_socket();
  while (::connect(out.get(), address.get(), address.bytes()) != 0) std::this_thread::sleep_for(1ms);
  return out;
}

// The system lists the socket that listens and the far end of each connection to it.
void await_connections_to(std::string const& name, int connections) {
  for (int found = 0; found < 1 + connections; std::this_thread::sleep_for(1ms)) {
    std::ifstream sockets("/proc/net/unix");
    found = 0;
    for (std::string line; std::getline(sockets, line);) found += line.ends_with("@" + path_of(name));
  }
}

bool has(outcome const& o, std::string const& text) { return o.said.find(text) != o.said.npos; }

}  // namespace

TEST_CASE("all ranks get the same private file of fixed size") {
  for (std::string const& name : {job("a"), job(std::string(300, 'x'))}) {
    auto const got = meet_all(name, {3, 1, 0, 2}, 4, 20s);
    for (outcome const& o : got) {
      CAPTURE(o.said);
      CHECK(o.said.empty());
      CHECK(o.file == got[0].file);
      CHECK(o.mode == 0600);
      CHECK(o.flags == FD_CLOEXEC);
      CHECK(o.seals == (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
    }
  }
}

TEST_CASE("names that differ only beyond the length of an address are different") {
  std::vector<outcome> a, b;
  std::jthread one([&] { a = meet_all(job(std::string(300, 'x') + "1"), {0, 1}, 2, 20s); });
  std::jthread two([&] { b = meet_all(job(std::string(300, 'x') + "2"), {0, 1}, 2, 20s); });
  one.join(), two.join();
  CHECK(a[0].file == a[1].file);
  CHECK(b[0].file == b[1].file);
  CHECK(a[0].file != b[0].file);
}

TEST_CASE("all ranks name the ranks that are missing") {
  for (outcome const& o : meet_all(job("absent"), {0, 2, 4}, 5, 3s)) {
    CAPTURE(o.said);
    CHECK(o.code == error_code::timeout);
    CHECK(has(o, "timed out waiting for ranks 1, 3 to join"));
  }
  for (outcome const& o : meet_all(job("no-host"), {1, 2}, 3, 100ms)) {
    CHECK(o.code == error_code::timeout);
    CHECK(o.peer == 0);
    CHECK(has(o, "rank 0 did not open the meeting point"));
    CHECK(has(o, "the same TUTTI_SIZE and TUTTI_JOB"));
  }
}

TEST_CASE("a guest of a rank 0 that accepts nothing gives up in time") {
  std::string const name = job("stopped");
  local_address const address(name);
  descriptor const listener = make_local_socket();
  REQUIRE(::bind(listener.get(), address.get(), address.bytes()) == 0);
  REQUIRE(::listen(listener.get(), 0) == 0);
  descriptor const first = connect_to(name);  // fills the queue
  outcome const o = meet(name, 1, 2, 100ms);
  CHECK(o.code == error_code::mismatch);
  CHECK(has(o, "another job of this name is running, or rank 0 of this one is stopped"));
}

TEST_CASE("two processes that claim the same rank are rejected, and all ranks learn of it") {
  for (outcome const& o : meet_all(job("twin"), {0, 1, 1}, 4, 20s)) {
    CAPTURE(o.said);
    CHECK((o.code == error_code::mismatch ||
           o.code == error_code::rank_lost));  // the one that was not let in sees a closed door
  }
}

TEST_CASE("two jobs of the same name that meet at once both fail") {
  auto const began = deadline::clock::now();
  for (outcome const& o : meet_all(job("namesakes"), {0, 0}, 3, 60s)) {
    CAPTURE(o.said);
    CHECK(o.code == error_code::mismatch);
    CHECK((has(o, "another job has this job's name") || has(o, "a process joined as rank 0 of 3, which is taken")));
  }
  CHECK(deadline::clock::now() - began < 50s);
}

TEST_CASE("while rank 0 of a job keeps its name, no other job meets under it") {
  std::string const name = job("kept");
  descriptor kept;
  outcome host, guest;
  std::jthread a([&] { host = meet(name, 0, 2, 20s, &kept); });
  descriptor const early = connect_to(name);  // a rank of the other job, whose greeting is late
  guest = meet(name, 1, 2, 20s);
  a.join();
  CHECK(guest.file == host.file);
  char refusal[1024] = {};  // its text follows two numbers
  CHECK(::recv(early.get(), refusal, sizeof refusal, MSG_WAITALL) == sizeof refusal);
  CHECK(std::string(refusal + 8).find("all ranks had joined already") != std::string::npos);

  for (int const rank : {0, 1}) {
    outcome const o = meet(name, rank, 2, 100ms);
    CAPTURE(o.said);
    CHECK(o.code == error_code::mismatch);
    CHECK(has(o, rank == 0 ? "another job has this job's name" : "another job of this name is running"));
    CHECK(has(o, "TUTTI_JOB"));
  }
  kept = descriptor();
  for (outcome const& o : meet_all(name, {0, 1}, 2, 20s)) CHECK(o.said == "");
}

TEST_CASE("a rank that gives up while others are missing ends the meeting immediately") {
  auto const began = deadline::clock::now();
  outcome host, patient;
  std::jthread a([&] { host = meet(job("quitter"), 0, 4, 60s); });
  std::jthread b([&] { patient = meet(job("quitter"), 1, 4, 60s); });
  outcome const quitter = meet(job("quitter"), 2, 4, 3s);
  a.join(), b.join();
  CHECK(quitter.code == error_code::timeout);
  for (outcome const& o : {host, patient, quitter}) {
    CAPTURE(o.said);
    CHECK(o.code == error_code::timeout);
    CHECK(o.peer == 3);
    CHECK(has(o, "timed out waiting for rank 3 to join"));
  }
  CHECK(deadline::clock::now() - began < 50s);
}

TEST_CASE("a rank that finds rank 0 under another user says so") {
  std::string const name = job("users");
  local_address const theirs(name, ::geteuid() + 1);
  descriptor const host = make_local_socket();
  REQUIRE(::bind(host.get(), theirs.get(), theirs.bytes()) == 0);
  outcome const guest = meet(name, 1, 2, 300ms);
  CHECK(guest.code == error_code::timeout);
  INFO(guest.said);
  CHECK(
      has(guest, "; user " + std::to_string(::geteuid() + 1) + " has one of this name, but this rank is a process of"));
  CHECK(has(guest, "start all ranks of a job as the same user"));
}

TEST_CASE("connections that send nothing or nonsense do not disturb the meeting") {
  std::string const name = job("visitor");
  outcome host, guest;
  std::jthread a([&] { host = meet(name, 0, 2, 20s); });
  auto const visit = [&] { return connect_to(name); };
  descriptor const silent = visit();
  visit();  // comes and goes
  descriptor const brief = visit();
  CHECK(::send(brief.get(), "x", 1, MSG_NOSIGNAL) == 1);
  guest = meet(name, 1, 2, 20s);
  a.join();
  CHECK(host.said.empty());
  CHECK(guest.said.empty());
  CHECK(guest.file == host.file);
}

TEST_CASE("a process of another job's size or another version of tutti is let in by nobody") {
  auto const join_as = [](std::string const& name, greeting const& stranger) {
    outcome host, guest;
    std::jthread a([&] { host = meet(name, 0, 3, 20s); });
    std::jthread b([&] { guest = meet(name, 1, 3, 20s); });
    descriptor const visitor = connect_to(name);
    await_connections_to(name, 2);  // a guest that comes after the end of the meeting would wait for the next
    CHECK(::send(visitor.get(), &stranger, sizeof stranger, MSG_NOSIGNAL) == sizeof stranger);
    a.join(), b.join();
    CHECK(host.code == error_code::mismatch);
    CHECK(host.peer == 2);
    CHECK((guest.code == error_code::mismatch || guest.code == error_code::rank_lost));
    return host;
  };
  outcome const larger = join_as(job("larger"), {.rank = 2, .ranks = 4});
  CHECK_MESSAGE(has(larger, "a process joined as rank 2 of 4, but this job has 3 ranks"), larger.said);
  outcome const newer = join_as(job("newer"), {.layout = segment_layout + 1, .rank = 2, .ranks = 3});
  CHECK_MESSAGE(has(newer, "a process joined as rank 2 that was built with another version of tutti"), newer.said);
}

TEST_CASE("a system call that is refused is named immediately, and the others learn which rank gave up") {
  struct refusal {
    unsigned call;
    int rank;  // to which it is refused
    char const* said;
  };
  for (refusal const& r : {refusal{SYS_accept4, 0, "cannot accept connections of 3 ranks: Operation not permitted"},
                           refusal{SYS_memfd_create, 0, "memfd_create failed: Operation not permitted"},
                           refusal{SYS_bind, 0, "cannot listen for the other ranks: Operation not permitted"},
                           refusal{SYS_socket, 1, "cannot make a local socket: Operation not permitted"},
                           refusal{SYS_connect, 1, "cannot connect to rank 0: Operation not permitted"}}) {
    CAPTURE(r.said);
    std::string const name = job("refused-" + std::to_string(r.call));
    auto const time_of = [&](int rank) { return rank == r.rank ? 60s : 4s; };
    auto const began = deadline::clock::now();
    std::vector<outcome> all(3);
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 3; ++rank)
      threads.emplace_back([&, rank] {
        if (rank == r.rank)
          testing::expect(testing::filter_system_calls({r.call}, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW),
                          "no filter");
        all[static_cast<std::size_t>(rank)] = meet(name, rank, 3, time_of(rank));
      });
    threads.clear();
    for (int rank = 0; rank < 3; ++rank) {
      outcome const& o = all[static_cast<std::size_t>(rank)];
      CAPTURE(rank);
      CAPTURE(o.said);
      if (rank != r.rank) CHECK(o.peer == r.rank);
      else CHECK((has(o, r.said) && has(o, "sandbox")));
    }
    CHECK(deadline::clock::now() - began < 50s);
  }
}
