// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files are read to their end, if they have one.
#include "tutti/core/file.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <sys/stat.h>

#include "support/temporary_folder.hpp"

using namespace tutti::detail;

TEST_CASE("a file is read to its end, and the reason is known if it cannot be") {
  tutti::testing::temporary_folder const at;
  std::string const path = at.path() / "file";
  for (std::size_t const bytes : {0u, 1u, 4095u, 4096u, 4097u, 100000u}) {
    std::string const text(bytes, 'x');
    std::ofstream(path) << text;
    CHECK(read_file(path) == text);
  }
  CHECK(read_file("/dev/null") == "");
  CHECK_FALSE(read_file(path + ".other"));
  CHECK(errno == ENOENT);
  CHECK_FALSE(read_file("/dev/zero"));
  CHECK(errno == EFBIG);
  CHECK_FALSE(read_file(at.path()));
  CHECK(errno == EISDIR);
}

TEST_CASE("a pipe into which nobody writes is read without a wait") {
  tutti::testing::temporary_folder const at;
  std::string const path = at.path() / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(read_file(path) == "");
}
