// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Watching a process, and learning of its end.
// labels: processes
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "support/system_calls.hpp"
#include "tutti/core/error.hpp"
#include "tutti/transport/system/process_watch.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

pid_t sleeping_process() {
  pid_t const process = ::fork();
  if (process == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::sleep(60);
    ::_exit(0);
  }
  return process;
}

// Leaves a zombie.
void end(pid_t process) {
  ::kill(process, SIGKILL);
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOWAIT);
}

void reap(pid_t process) { ::waitpid(process, nullptr, 0); }

}  // namespace

TEST_CASE("all copies of a watch learn of the end of a process, before and after it is reaped") {
  pid_t const process = sleeping_process();
  process_watch watch;
  CHECK_FALSE(watch.begun());
  CHECK_FALSE(watch.ended());
  watch.begin(process);
  process_watch const copy = watch;
  CHECK(copy.begun());
  CHECK_FALSE(copy.ended());
  end(process);
  CHECK(watch.ended());
  CHECK(copy.ended());
  reap(process);
  CHECK(copy.ended());
}

TEST_CASE("a process that ended before it was watched is reported as ended") {
  pid_t const process = sleeping_process();
  end(process);
  process_watch zombie, gone;
  zombie.begin(process);
  CHECK(zombie.ended());
  reap(process);
  gone.begin(process);
  CHECK(gone.ended());
}

TEST_CASE("a stopped process is told from one that runs, and from one that has ended") {
  pid_t const process = sleeping_process();
  process_watch watch;
  CHECK_FALSE(watch.stopped());
  watch.begin(process);
  CHECK_FALSE(watch.stopped());
  ::kill(process, SIGSTOP);
  ::waitpid(process, nullptr, WUNTRACED);
  CHECK(watch.stopped());
  CHECK_FALSE(watch.ended());
  ::kill(process, SIGCONT);
  ::waitpid(process, nullptr, WCONTINUED);
  CHECK_FALSE(watch.stopped());
  end(process);
  CHECK_FALSE(watch.stopped());
  reap(process);
}

TEST_CASE("a child does not keep a process alive for those who watch it by a connection") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  descriptor const here(ends[0]);
  pid_t const process = ::fork();
  if (process == 0) {
    ::setpgid(0, 0);
    ::close(ends[0]);
    process_watch back;
    {
      descriptor const there(ends[1]);
      back.begin(there);
    }
    ::fork();
    ::sleep(60);
    ::_exit(0);
  }
  ::close(ends[1]);
  process_watch watch;
  watch.begin(here);
  ::usleep(300'000);
  CHECK_FALSE(watch.ended());
  end(process);
  for (int i = 0; i < 10'000 && !watch.ended(); ++i) ::usleep(1000);
  CHECK(watch.ended());
  ::kill(-process, SIGKILL);
  reap(process);
}

TEST_CASE("running out of file descriptors is reported") {
  pid_t const process = sleeping_process();
  auto const begin_without_files = [&] {
    struct no_files {
      no_files() {
        ::getrlimit(RLIMIT_NOFILE, &before);
        rlimit const none{0, before.rlim_max};
        ::setrlimit(RLIMIT_NOFILE, &none);
      }
      ~no_files() { ::setrlimit(RLIMIT_NOFILE, &before); }
      rlimit before{};
    } const limited;
    process_watch().begin(process);
  };
  CHECK_THROWS_WITH_AS(begin_without_files(), doctest::Contains("raise the limit of open files"), error);
  end(process);
  reap(process);
}

TEST_CASE("a program that closes all descriptors does not believe that others have ended") {
  pid_t const process = sleeping_process(), closer = ::fork();
  if (closer == 0) {
    process_watch watch;
    watch.begin(process);
    for (int file = 3; file < 100; ++file) ::close(file);
    if (watch.ended()) ::_exit(1);
    ::kill(process, SIGKILL);
    for (int i = 0; i < 10000 && !watch.ended(); ++i) ::usleep(1000);
    ::_exit(watch.ended() ? 0 : 2);
  }
  int status = 0;
  ::waitpid(closer, &status, 0);
  CHECK(status == 0);
  reap(process);
}

TEST_CASE("a program's own file under the number of a closed descriptor is neither taken for a process nor closed") {
  pid_t const process = sleeping_process();
  int const number = ::dup(0);
  ::close(number);
  {
    process_watch watch;
    watch.begin(process);
    ::close(number);
    REQUIRE(::open("/dev/null", O_RDONLY) == number);
    CHECK_FALSE(watch.ended());
    end(process);
    CHECK(watch.ended());
  }
  CHECK(::close(number) == 0);
  reap(process);
}

#if defined(SYS_pidfd_open)
TEST_CASE("where the system refuses handles of processes, their end is noticed all the same") {
  pid_t const process = sleeping_process(), asker = ::fork();
  if (asker == 0) {
    if (!tutti::testing::filter_system_calls({SYS_pidfd_open}, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW))
      ::_exit(1);
    if (::syscall(SYS_pidfd_open, process, 0) >= 0 || errno != EPERM) ::_exit(2);
    process_watch watch;
    watch.begin(process);
    if (watch.ended()) ::_exit(3);
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    rlimit const none{0, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
    if (watch.ended()) ::_exit(5);  // /proc cannot be read then, which says nothing about the process
    ::setrlimit(RLIMIT_NOFILE, &before);
    ::kill(process, SIGKILL);
    for (int i = 0; i < 10000 && !watch.ended(); ++i) ::usleep(1000);
    if (!watch.ended()) ::_exit(4);  // a zombie, because its parent does not wait for it yet
    process_watch late;
    late.begin(process);
    ::_exit(late.ended() ? 0 : 6);
  }
  int status = 0;
  ::waitpid(asker, &status, 0);
  CHECK(status == 0);
  reap(process);
}
#endif
