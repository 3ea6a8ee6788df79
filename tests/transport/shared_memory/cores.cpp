// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The groups of processes among which the system divides time.
// labels: processes
#include <doctest/doctest.h>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "tutti/transport/shared_memory/cores.hpp"

namespace {

// A forked process, which stays until the end of this object.
class forked {
 public:
  // `apart`: with a namespace of control groups of its own.
  explicit forked(bool apart) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    process_ = ::fork();
    if (process_ == 0) {
      std::uint64_t const group = apart && ::unshare(CLONE_NEWCGROUP) != 0 ? 0 : tutti::detail::time_group();
      if (::write(ends[1], &group, sizeof group) != sizeof group) ::_exit(1);
      while (true) ::pause();
    }
    REQUIRE(::read(ends[0], &group_, sizeof group_) == sizeof group_);
    ::close(ends[0]), ::close(ends[1]);
  }
  forked(forked const&) = delete;
  forked& operator=(forked const&) = delete;
  ~forked() { ::kill(process_, SIGKILL), ::waitpid(process_, nullptr, 0); }

  std::uint64_t time_group() const { return group_; }  // 0: a namespace is not permitted

 private:
  pid_t process_;
  std::uint64_t group_ = 0;
};

}  // namespace

TEST_CASE("processes of a session yield to each other, those in different containers do not") {
  CHECK(forked(false).time_group() == tutti::detail::time_group());
  forked const one(true), other(true);
  if (one.time_group() == 0) {
    MESSAGE("skipped: namespaces of control groups are not permitted");
    return;
  }
  CHECK(one.time_group() != other.time_group());
}
