// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The files of traces and flight records: valid after every write, and never somebody else's.
#include "tutti/fault/output_file.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "support/temporary_folder.hpp"
#include "tutti/core/error.hpp"

using namespace tutti::detail;

namespace {

std::string contents_of(std::string const& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// As a disk that is full when a file has this size.
class little_room {
 public:
  explicit little_room(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit const now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  little_room(little_room const&) = delete;
  little_room& operator=(little_room const&) = delete;
  ~little_room() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

std::string refusal_of_output(std::string const& path) {
  try {
    open_output("here", path);
    return {};
  } catch (tutti::error const& e) {
    CHECK(e.code() == tutti::error_code::bad_argument);
    return e.what();
  }
}

}  // namespace

TEST_CASE("an array of events is complete after every write, whoever appends to it") {
  tutti::testing::temporary_folder const at;
  std::string const path = at.path() / "events";
  {
    event_file first("here", path, true), second("here", path, false);
    CHECK(contents_of(path).empty());
    first.add("1");
    CHECK(contents_of(path) == "[\n1\n]\n");
    second.add("2");
    CHECK(contents_of(path) == "[\n1,\n2\n]\n");
    first.add("3");
    second.add("4");
    first.flush();
    CHECK(contents_of(path) == "[\n1,\n2,\n3\n]\n");
    first.flush();
    first.add("5");
  }
  CHECK(contents_of(path) == "[\n1,\n2,\n3,\n4,\n5\n]\n");
  event_file("here", path, true).add("6");
  CHECK(contents_of(path) == "[\n6\n]\n");
}

TEST_CASE("where the disk has no room, an array of events is complete without the last ones, and a record is empty") {
  tutti::testing::temporary_folder const at;
  std::string const path = at.path() / "events", record = at.path() / "record";
  event_file events("here", path, true), fresh("here", at.path() / "fresh", true);
  events.add("1");
  {
    little_room const room(100);
    events.add(std::string(200, '2'));
    events.flush();
    fresh.add(std::string(200, '2'));
    CHECK_THROWS_WITH(write_whole_file("here", record, std::string(200, '3')),
                      doctest::Contains("File too large; choose a path on a disk that has enough space"));
  }
  CHECK(contents_of(path) == "[\n1\n]\n");
  CHECK(contents_of(at.path() / "fresh").empty());
  CHECK(contents_of(record).empty());
  events.add("3");
  events.flush();
  CHECK(contents_of(path) == "[\n1,\n3\n]\n");
}

TEST_CASE("an own earlier file is overwritten") {
  tutti::testing::temporary_folder const at;
  std::string const path = at.path() / "record";
  write_whole_file("here", path, "a long text");
  write_whole_file("here", path, "short");
  CHECK(contents_of(path) == "short");
}

TEST_CASE("a process that keeps the file locked does not stop those that write to it") {
  tutti::testing::temporary_folder const at;
  std::string const path = at.path() / "record";
  std::ofstream{path};
  descriptor const other(::open(path.c_str(), O_RDONLY));
  REQUIRE(::flock(other.get(), LOCK_SH) == 0);
  write_whole_file("here", path, "text");
  CHECK(contents_of(path) == "text");
}

TEST_CASE("links to other files and what is no file are refused and left as they are") {
  tutti::testing::temporary_folder const at;
  std::string const precious = at.path() / "precious", link = at.path() / "link";
  std::ofstream(precious) << "data";
  std::filesystem::create_symlink(precious, link);
  CHECK(refusal_of_output(link).find("is a symbolic link") != std::string::npos);
  std::string const dangling = at.path() / "dangling", nothing = at.path() / "nothing";
  std::filesystem::create_symlink(nothing, dangling);
  CHECK(refusal_of_output(dangling).find("is a symbolic link") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(nothing));
  std::string const hard = at.path() / "hard";
  std::filesystem::create_hard_link(precious, hard);
  CHECK(refusal_of_output(hard).find("is a hard link") != std::string::npos);
  CHECK(contents_of(precious) == "data");
  std::string const pipe = at.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refusal_of_output(pipe).find("cannot be written") != std::string::npos);
  CHECK(refusal_of_output("/dev/null").find("is not a regular file") != std::string::npos);
  CHECK(refusal_of_output(at.path() / "none" / "x").find("existing folder") != std::string::npos);
}
