// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Watching a process by its port: its end is noticed, and a connection that breaks while it lives is none.
// labels: processes
#include <doctest/doctest.h>

#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <thread>

#include "tutti/transport/system/distant_process.hpp"

using namespace tutti::detail;
using namespace std::chrono_literals;

namespace {

process_port on_this_machine(std::uint16_t number) {
  process_port out{.number = number, .count = 1};
  out.addresses[0] = htonl(INADDR_LOOPBACK);
  return out;
}

// Looks for the end of the process until it is noticed, or for as long.
bool ends_within(distant_process& process, std::chrono::milliseconds time) {
  for (auto const until = deadline::after(time); !process.ended(); std::this_thread::sleep_for(1ms))
    if (until.passed()) return false;
  return true;
}

// Listens as a process does, but may accept connections and close them.
struct listener {
  descriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t port = 0;

  listener() {
    sockaddr_in at{};
    socklen_t bytes = sizeof at;
    at.sin_family = AF_INET;
    REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&at), bytes) == 0);
    REQUIRE(::listen(socket.get(), 8) == 0);
    REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &bytes) == 0);
    port = at.sin_port;
  }
  // Closes the next connection, in order or not.
  void refuse_one(bool in_order) const {
    descriptor const connection(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    linger const at_once{1, 0};
    if (!in_order) ::setsockopt(connection.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
};

struct listening_process {
  pid_t process = -1;
  std::uint16_t port = 0;

  // `forks`: it leaves a child behind.
  explicit listening_process(bool forks = false) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    process = ::fork();
    if (process == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::uint16_t const number = own_port().number;
      ::setpgid(0, 0);
      if (forks && ::fork() == 0) ::sleep(60), ::_exit(0);
      if (::write(ends[1], &number, sizeof number) == sizeof number) ::sleep(60);
      ::_exit(0);
    }
    REQUIRE(::read(ends[0], &port, sizeof port) == sizeof port);
    for (int const e : ends) ::close(e);
    REQUIRE(port != 0);
  }
  listening_process(listening_process const&) = delete;
  listening_process& operator=(listening_process const&) = delete;
  ~listening_process() { ::kill(-process, SIGKILL); }
  void end() const {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }
};

}  // namespace

TEST_CASE("the end of a process is known by its port, whether it ends before or after the first look") {
  listening_process before, after;
  distant_process one(on_this_machine(before.port)), other(on_this_machine(after.port));
  before.end();
  CHECK(ends_within(one, 20s));
  CHECK_FALSE(ends_within(other, 300ms));
  after.end();
  CHECK(ends_within(other, 20s));
}

TEST_CASE("a process is watched however often") {
  listening_process process;
  for (int i = 0; i < 200; ++i) {
    distant_process& watched = distant_process::at(on_this_machine(process.port));
    for (auto const until = deadline::after(2ms); !until.passed();) CHECK_FALSE(watched.ended());
  }
  process.end();
  CHECK(ends_within(distant_process::at(on_this_machine(process.port)), 20s));
}

TEST_CASE("a child does not keep a process alive for those who watch it") {
  listening_process parent(true);
  distant_process watched(on_this_machine(parent.port));
  CHECK_FALSE(ends_within(watched, 300ms));
  parent.end();
  CHECK(ends_within(watched, 20s));
}

TEST_CASE("a connection that breaks while the process lives is replaced") {
  listener process;
  distant_process watched(on_this_machine(process.port));
  for (bool const in_order : {true, false, true, false}) {
    CHECK_FALSE(ends_within(watched, 20ms));
    process.refuse_one(in_order);
    CHECK_FALSE(ends_within(watched, 300ms));
  }
  process.socket = descriptor();
  CHECK(ends_within(watched, 20s));
}

TEST_CASE("a process that was never reached has not ended") {
  std::uint16_t const unused = listener().port;
  distant_process refused(on_this_machine(unused)), without_port(process_port{});
  CHECK_FALSE(ends_within(refused, 300ms));
  CHECK_FALSE(ends_within(without_port, 10ms));
}
