// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between two ranks over shm: windows of them, from ranks that wait or are busy elsewhere, and errors after a
// rank is killed.
// labels: processes
// timeout: 200
#include <doctest/doctest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ranges>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "message/messages.hpp"
#include "support/own_pages.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("messages arrive over shm") {
  for (int const ranks : message_rank_counts()) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_messages(comm); }));
  }
  for (int const ranks : ranks_to_test({2, 4})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_messages_by_thread(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_turns(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_probes_of_threads(comm); }));
  }
}

TEST_CASE("a rank that has become another program is lost, and its memory is not to blame") {
  CHECK_NOTHROW(run_local(2, [](auto& comm) {
    std::vector<int> data(1000000, 1);
    if (comm.rank() == 1) {
      work const offered = isend(comm, data, 0);
      ::execl("/bin/sleep", "sleep", "2", nullptr);
      throw std::runtime_error("there is no /bin/sleep");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // rank 1 is that program by then
    expect_error(error_of([&] { recv(comm, data, 1); }), error_code::rank_lost, "rank 1 (process ");
  }));
}

TEST_CASE("a rank that is killed ends the messages of all who wait for it") {
  for (int const way : {0, 1, 2, 3, 4}) {
    CAPTURE(way);
    auto const run = [&](auto& all) {
      auto comm = all.subgroup({0, 1, 2});
      if (comm.rank() == 1) ::raise(SIGKILL);
      std::vector<int> data(1000000, 1);
      auto const wait = [&] {
        if (way == 0) send(comm, data, 1);
        else if (way == 1) recv(comm, data, any_source);
        else if (way == 2) irecv(comm, data, 1).wait();
        else if (way == 3) static_cast<void>(probe(comm, any_source));
        else
          while (!iprobe(comm, 1)) std::this_thread::yield();
      };
      expect_error(error_of(wait), error_code::rank_lost, "rank 1 (process ");
      expect_error(error_of([&] { barrier(comm); }), error_code::rank_lost, "while rank ");
    };
    CHECK_THROWS_WITH_AS(
        run_local(3, run),
        doctest::Contains(
            "tutti: rank 1 was ended by signal 9 (Killed); start with the first, which caused the others"),
        error);
  }
}

namespace {

// Words in memory that all ranks of a run share, whatever they do in tutti.
class shared_words {
 public:
  shared_words()
      : all_(static_cast<std::atomic<int>*>(
            ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    REQUIRE(all_ != MAP_FAILED);
  }
  shared_words(shared_words const&) = delete;
  shared_words& operator=(shared_words const&) = delete;
  ~shared_words() { ::munmap(all_, 4096); }
  std::atomic<int>& operator[](int i) const { return all_[i]; }

 private:
  std::atomic<int>* all_;
};

// From every rank to every other at once, of 40 KiB and more, too many for a channel.
struct window {
  template <class Comm>
  window(Comm& comm, std::size_t count, int messages, int round) : count_(count) {
    for (int r = 0; r < comm.size(); ++r)
      for (int i = 0; i < messages && r != comm.rank(); ++i) {
        seeds_.push_back(static_cast<std::uint32_t>(round * 10000 + r * 100 + i));
        in_.emplace_back(count, 77);
        works_.push_back(irecv(comm, in_.back(), r, i));
      }
    for (int i = 0; i < messages; ++i)
      out_.push_back(numbered<int>(count, static_cast<std::uint32_t>(round * 10000 + comm.rank() * 100 + i)));
    for (int r = 0; r < comm.size(); ++r)
      for (int i = 0; i < messages && r != comm.rank(); ++i)
        works_.push_back(isend(comm, out_[static_cast<std::size_t>(i)], r, i));
  }
  std::vector<work>& works() { return works_; }
  // The sent buffer is overwritten at once.
  void check() {
    for (auto& o : out_) std::ranges::fill(o, -1);
    for (std::size_t i = 0; i < in_.size(); ++i)
      expect(in_[i] == numbered<int>(count_, seeds_[i]), "a message of a window has other elements");
  }

 private:
  std::size_t count_;
  std::vector<std::vector<int>> in_, out_;
  std::vector<std::uint32_t> seeds_;
  std::vector<work> works_;
};

template <class Comm>
void check_windows(Comm& comm) {
  int round = 0;
  for (std::size_t const bytes : {std::size_t{40} << 10, std::size_t{300} << 10, std::size_t{2} << 20})
    for (int way = 0; way < 6; ++way) {
      window w(comm, bytes / sizeof(int), bytes > 1000000 ? 3 : 12, ++round);
      auto& works = w.works();
      if (way == 0) wait_for_all(works);
      if (way == 1)
        for (auto it = works.rbegin(); it != works.rend(); ++it) it->wait();
      if (way == 2)
        while (auto const at = wait_for_any(works)) works.erase(works.begin() + static_cast<std::ptrdiff_t>(*at));
      if (way == 3)
        for (work& one : works)
          while (!one.wait(std::chrono::microseconds(1))) {
          }
      if (way == 4)
        for (work& one : works)
          while (!one.test()) {
          }
      if (way == 5) {
        std::jthread const helper([&] { works.front().wait(); });
        for (work& one : works | std::views::drop(1)) one.wait();
      }
      w.check();
    }
}

}  // namespace

TEST_CASE("windows of messages arrive over shm, whoever waits for which") {
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_windows(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) {
      progress_thread const moves_messages;
      check_windows(comm);
    }));
  }
}

// Ranks reach stages in turn without a call, in which they would move their messages.
TEST_CASE("a receive looks for its message as it starts, if its rank has just sent one") {
  shared_words const words;
  auto const run = [&](auto& comm) {
    if (!comm.engine().transport().pulls()) return;  // rank 2 would wait for slices of rank 0
    auto const reach = [&](int stage) { words[0] = stage; };
    auto const wait_for_stage = [&](int stage) {
      auto const until = deadline::after(std::chrono::seconds(20));
      while (words[0] < stage && !until.passed()) std::this_thread::yield();
      expect(words[0] >= stage, "a stage was not reached");
    };
    std::vector<int> const small{1, 2, 3};
    std::vector<int> large(100'000, 9), few(1);
    if (comm.rank() == 0) {
      std::vector<int> a(3), b(3);
      // The first transfer of this rank, which has looked at no channel before.
      receive_work first = irecv(comm, a, 1, 5, {.timeout = std::chrono::seconds(20)});
      expect(!first.done(), "a message has come before it was sent");
      reach(1);
      wait_for_stage(2);
      expect(first.test() && a == small, "a message was not looked for");
      receive_work calm = irecv(comm, a, 1, 4);
      expect(!calm.done(), "a receive took a line from its sender");
      expect(calm.test(), "a message that a receive did not look for was not found later");
      send(comm, few, 2, 1);
      receive_work last = irecv(comm, b, 1, 8);
      expect(last.done() && last.get() == received{1, 8, 3}, "a receive does not look past messages with other tags");
      receive_work next = irecv(comm, b, 1, any_tag);
      expect(next.done() && next.get() == received{1, 7, 3}, "a message was not kept");
      // A receive that ends at once moves what this rank has in flight with other ranks.
      work sent = isend(comm, large, 2, 5);
      reach(3);
      wait_for_stage(5);
      expect(!sent.done(), "a send has ended by itself");
      expect(irecv(comm, a, 1, 9).done(), "a message was not received at once");
      expect(sent.done(), "a receive did not move what is in flight");
      sent.wait();
      send(comm, few, 1, 1);
      reach(6);
      wait_for_stage(7);
      receive_work const unfit = irecv(comm, few, 1, 9);
      expect(unfit.exception() != nullptr, "a message that does not fit was not an error at once");
      reach(8);
    } else if (comm.rank() == 1) {
      wait_for_stage(1);
      for (int const tag : {5, 4, 7, 8}) send(comm, small, 0, tag);
      reach(2);
      wait_for_stage(4);
      send(comm, small, 0, 9);
      reach(5);
      wait_for_stage(6);
      recv(comm, few, 0, 1);
      send(comm, small, 0, 9);
      reach(7);
      wait_for_stage(8);
    } else {
      wait_for_stage(3);
      recv(comm, large, 0, 5);
      recv(comm, few, 0, 1);
      reach(4);
      wait_for_stage(8);
    }
  };
  CHECK_NOTHROW(run_local(3, run));
}

TEST_CASE("what a receiver has asked a sender for that waits arrives, though the sender goes on to something else") {
  shared_words const words;
  auto const run = [&](auto& comm) {
    if (!comm.engine().transport().pulls()) return;  // the system does not let ranks read each other's memory
    int const rounds = 30;
    std::vector<std::vector<int>> data(6);
    for (int round = 1; round <= rounds; ++round) {
      std::vector<work> works;
      auto const seed = [&](std::size_t i) {
        return static_cast<std::uint32_t>(round * 10) + static_cast<std::uint32_t>(i);
      };
      std::size_t const count = 300000;
      if (comm.rank() == 0) {
        for (std::size_t i = 0; i < data.size(); ++i) {
          data[i] = numbered<int>(count, seed(i));
          works.push_back(isend(comm, data[i], 1));
        }
        if (round % 2 == 0) works.back().wait(std::chrono::microseconds(10 * round));
        else works.front().wait();
        auto const until = deadline::after(std::chrono::seconds(15));
        while (words[0] < round && !until.passed()) std::this_thread::yield();  // not in tutti
        expect(words[0] >= round, "a receiver has waited for a sender that was elsewhere");
        wait_for_all(works);
      } else {
        for (auto& d : data) {
          d.assign(count, 77);
          works.push_back(irecv(comm, d, 0));
        }
        wait_for_all(works);
        for (std::size_t i = 0; i < data.size(); ++i)
          expect(data[i] == numbered<int>(count, seed(i)), "a message has other elements");
        words[0] = round;
      }
      for (auto& d : data) std::ranges::fill(d, -1);
    }
  };
  CHECK_NOTHROW(run_local(2, run));
}

TEST_CASE("what follows a message is done by who has moved it to its end, who waited for another") {
  auto const run = [&](auto& comm) {
    for (int round = 1; round <= 20; ++round) {
      std::vector<int> small(3, round), large(1000000, round);
      if (comm.rank() == 0) {
        std::vector<work> works{isend(comm, large, 1, 1), isend(comm, small, 1, 2)};
        wait_for_all(works);
        continue;
      }
      work const first = irecv(comm, large, 0, 1), second = irecv(comm, small, 0, 2);
      bool followed = false;
      work follower = work(first).then([&] { followed = true; });
      std::jthread([&] { work(second).wait(); }).join();
      follower.wait();
      expect(followed, "what follows has not been done");
    }
  };
  CHECK_NOTHROW(run_local(2, run));
}

TEST_CASE("a receiver that waited for one message leaves no sender with another half sent") {
  shared_words const words;
  auto const run = [&](auto& comm) {
    if (!comm.engine().transport().pulls()) return;
    for (int round = 1; round <= 30; ++round) {
      constexpr int fillers = 200;
      // The sender has room for the slices of the shorter one, so its receiver leaves at once.
      std::size_t const count = round % 2 == 0 ? 100'000 : 1'000'000;
      std::vector<int> const small(3, round);
      std::vector<int> large = numbered<int>(count, static_cast<std::uint32_t>(round)), in(3);
      if (comm.rank() == 0) {
        work const first = isend(comm, large, 1, 1), second = isend(comm, small, 1, 2);
        // These fill the channel of messages, which must not keep the slices of the first.
        std::vector<work> others;
        for (int i = 0; i < fillers; ++i) others.push_back(isend(comm, small, 1, 3));
        work(first).wait();
        words[0] = round;
        wait_for_all(others);
      } else {
        std::vector<int> got(large.size());
        work all = irecv(comm, got, 0, 1);
        recv(comm, in, 0, 2);
        auto const until = deadline::after(std::chrono::seconds(15));
        while (words[0] < round && !until.passed()) std::this_thread::yield();  // not in tutti
        expect(words[0] >= round, "a sender has waited for a receiver that was elsewhere");
        all.wait();
        expect(got == large, "a message has other elements");
        for (int i = 0; i < fillers; ++i) recv(comm, in, 0, 3);
      }
    }
  };
  CHECK_NOTHROW(run_local(2, run));
}

// An exception releases the memory of rank 0 before its communicator learns of it, and rank 1 fetches in between.
TEST_CASE("a receiver whose sender has released the message because of an exception names the sender, not the memory") {
  struct pause {
    std::chrono::milliseconds time{};
    ~pause() { std::this_thread::sleep_for(time); }
  };
  auto const run = [](auto& all) {
    if (!all.engine().transport().pulls()) return;
    bool const thrower = all.rank() == 0;
    try {
      auto comm = *all.split(0);
      pause const later{std::chrono::milliseconds(thrower ? 200 : 0)};
      own_pages data(2'000'000);
      if (!thrower) std::this_thread::sleep_for(std::chrono::milliseconds(50));  // its memory is gone by then
      work const started = thrower ? isend(comm, data.numbers(), 1) : work(irecv(comm, data.numbers(), 0));
      if (thrower) throw std::runtime_error("enough");
      work(started).wait();
      expect(false, "a message of a rank that gave up has arrived");
    } catch (error const& e) {
      expect_error(e, error_code::rank_left, "rank 0 gave up");
    } catch (std::runtime_error const&) {
      expect(thrower, "another rank has thrown");
    }
  };
  CHECK_NOTHROW(run_local(2, run));
}

TEST_CASE("a rank that is killed while slices of its messages are on their way ends those of its peer") {
  for (int const victim : {0, 1})
    for (int const microseconds : {1, 30, 100, 300}) {
      CAPTURE(victim);
      CAPTURE(microseconds);
      auto const run = [&](auto& comm) {
        std::vector<std::vector<int>> data(40, std::vector<int>(500000, 1));
        std::vector<work> works;
        for (auto& d : data) works.push_back(comm.rank() == 0 ? isend(comm, d, 1) : irecv(comm, d, 0));
        if (comm.rank() == victim) {
          works.back().wait(std::chrono::microseconds(microseconds));
          ::raise(SIGKILL);
        }
        std::vector<int> last(500000);  // its peer never receives it
        if (comm.rank() == 0) works.push_back(isend(comm, last, 1));
        else works.push_back(irecv(comm, last, 0));
        auto const end_all = [&] {
          if (microseconds != 30) return wait_for_all(works);
          for (work& w : works)
            while (!w.test()) {
            }
        };
        expect_error(error_of(end_all), error_code::rank_lost, "rank " + std::to_string(victim) + " (process ");
      };
      std::string const words = "tutti: rank " + std::to_string(victim) + " was ended by signal 9 (Killed)";
      CHECK_THROWS_WITH_AS(run_local(2, run), doctest::Contains(words.c_str()), error);
    }
}

namespace {

// Calls a function when it fetches a message from the memory of a peer.
class interrupted_shm : public shm {
 public:
  using shm::shm;

  int fetch(int peer, std::byte* to, std::byte const* from, std::size_t bytes) noexcept {
    if (auto const interrupt = std::exchange(at_fetch, nullptr)) interrupt();
    return shm::fetch(peer, to, from, bytes);
  }

  std::function<void()> at_fetch;
};

}  // namespace

// The sender is told of the fault, and uses its memory for something else while the message is being fetched.
TEST_CASE("a message that irecv fetches at once does not count if its sender gives up meanwhile") {
  descriptor const file = shm::create(2, all_tracks);
  std::array<std::unique_ptr<interrupted_shm>, 2> ranks;
  auto const enter = [&](int rank) {
    ranks[static_cast<std::size_t>(rank)] =
        std::make_unique<interrupted_shm>(file, rank, 2, all_tracks, countdown(std::chrono::seconds(60)));
  };
  std::thread other(enter, 1);
  enter(0);
  other.join();
  communicator<interrupted_shm> sender(std::move(ranks[0])), receiver(std::move(ranks[1]));
  std::vector<int> out(10'000, 1), in(10'000, 0);
  work sent = isend(sender, out, 1);
  REQUIRE(iprobe(receiver, 0).has_value());
  bool fetched = false;
  receiver.engine().transport().at_fetch = [&] {
    fetched = true;
    sender.revoke("the sender gives up");
    out.assign(out.size(), -1);
  };
  receive_work incoming = irecv(receiver, in, 0);
  REQUIRE(fetched);
  CHECK(in[0] == -1);
  expect_error(error_of([&] { incoming.wait(); }), error_code::revoked, "the sender gives up");
  expect_error(error_of([&] { sent.wait(); }), error_code::revoked, "the sender gives up");
}

namespace {

// The system lets it read no memory of its peers, although it did so when the ranks joined.
class forbidden_shm : public shm {
 public:
  using shm::shm;

  int fetch(int, std::byte*, std::byte const*, std::size_t) noexcept {
    ++refusals;
    return EPERM;
  }
  // The sender seems to wait when its message is found, and to have left by the next look.
  bool is_responsive(int) const noexcept { return std::exchange(sender_waits, false); }

  int refusals = 0;
  mutable bool sender_waits = false;
};

}  // namespace

TEST_CASE("a message arrives although the system has forbidden to read the sender's memory since the ranks joined") {
  for (bool const later : {false, true}) {
    CAPTURE(later);
    descriptor const file = shm::create(2, all_tracks);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    descriptor const told(ends[0]), tell(ends[1]);
    char word = 0;
    std::vector<int> const out(200'000, 1);
    auto const enter = [&](int rank) {
      return communicator<forbidden_shm>(
          std::make_unique<forbidden_shm>(file, rank, 2, all_tracks, countdown(std::chrono::seconds(60))));
    };
    pid_t const other = ::fork();
    if (other == 0) {
      ::alarm(60);
      auto comm = enter(0);
      work sent = isend(comm, out, 1);
      if (::read(told.get(), &word, 1) != 1) ::_exit(1);
      sent.wait();
      barrier(comm);
      ::_exit(0);
    }
    auto comm = enter(1);
    forbidden_shm& transport = comm.engine().transport();
    if (transport.pulls()) {
      std::vector<int> in(out.size(), 0);
      transport.sender_waits = later;
      receive_work incoming = irecv(comm, in, 0);
      while (transport.refusals == 0 && !incoming.test()) {
      }
      CHECK(::write(tell.get(), &word, 1) == 1);
      CHECK_NOTHROW(incoming.wait());
      CHECK_NOTHROW(barrier(comm));
      CHECK(in == out);
      CHECK(transport.refusals == 1);
    } else {
      ::kill(other, SIGKILL);
    }
    int status = -1;
    ::waitpid(other, &status, 0);
    if (transport.pulls()) CHECK(status == 0);
  }
}
