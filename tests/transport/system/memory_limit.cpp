// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory that control groups leave to a process.
#include "tutti/transport/system/memory_limit.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "support/temporary_folder.hpp"

using namespace tutti::detail;

namespace {

struct group_folder {
  void write(std::string const& file, std::string const& text) const { std::ofstream(at.path() / file) << text; }
  std::size_t left() const { return memory_left_in(at.path()); }

  tutti::testing::temporary_folder at;
};

}  // namespace

TEST_CASE("a control group leaves its limit less what it uses, but for cached files") {
  group_folder const newer, older;
  newer.write("memory.max", "1000\n");
  newer.write("memory.current", "700\n");
  CHECK(newer.left() == 300);
  newer.write("memory.stat", "anon 500\nfile 150\ninactive_file 90\nactive_file 60\n");
  CHECK(newer.left() == 450);
  newer.write("memory.current", "2000\n");
  CHECK(newer.left() == 0);
  older.write("memory.limit_in_bytes", "1000\n");
  older.write("memory.usage_in_bytes", "700\n");
  older.write("memory.stat", "inactive_file 1\nactive_file 2\ntotal_inactive_file 90\ntotal_active_file 60\n");
  CHECK(older.left() == 450);
}

TEST_CASE("without a limit, or without groups, memory is not limited") {
  group_folder const group;
  CHECK(group.left() == unlimited_memory);
  group.write("memory.current", "700\n");
  group.write("memory.max", "max\n");
  CHECK(group.left() == unlimited_memory);
  CHECK(memory_left() > 0);
}
