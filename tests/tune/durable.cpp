// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file of tutti-tune is on the disk before it gets its name.
// labels: alone unsanitized
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdio>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include "../../tools/tune/write.hpp"
#include "support/temporary_folder.hpp"
#include "tutti/core/file.hpp"

namespace {

// What happened to the file with this inode, and how large it was then.
struct event {
  char const* what;
  ino_t inode;
  off_t bytes;
};
std::vector<event> events;

}  // namespace

// In place of those of the C library.
extern "C" {
int fsync(int file) {
  struct stat now{};
  if (::fstat(file, &now) == 0) events.push_back({"fsync", now.st_ino, now.st_size});
  return static_cast<int>(::syscall(SYS_fsync, file));
}
int rename(char const* from, char const* to) noexcept {
  struct stat now{};
  if (::stat(from, &now) == 0) events.push_back({"rename", now.st_ino, now.st_size});
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
}

TEST_CASE("what tutti-tune writes is flushed to the disk whole before it replaces its target") {
  tutti::testing::temporary_folder const at;
  std::string const path = (at.path() / "table").string(), text(100'000, 'x');
  tuning::draft const made(path);
  events.clear();
  made.commit(text);
  REQUIRE(events.size() == 2);
  CHECK(std::string(events[0].what) == "fsync");
  CHECK(std::string(events[1].what) == "rename");
  CHECK(events[0].inode == events[1].inode);
  for (event const& e : events) CHECK(e.bytes == static_cast<off_t>(text.size()));
  CHECK(tutti::detail::read_file(path) == text);
}
