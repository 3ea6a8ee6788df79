// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory that control groups leave to a process.
#include "tutti/transport/system/memory_limit.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
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

// The files of a system that is not this one.
struct system_folder {
  void write(std::string const& file, std::string const& text) const {
    std::filesystem::path const path = at.path().string() + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void mount(std::string const& lines) const { write("/proc/self/mountinfo", lines); }
  // A group, by its path, of version 2.
  void limit(std::string const& group, int bytes, int used) const {
    write(group + "/memory.max", std::to_string(bytes) + "\n");
    write(group + "/memory.current", std::to_string(used) + "\n");
  }
  std::size_t left() const { return memory_left(at.path()); }

  tutti::testing::temporary_folder at;
};

char const* const newer_at_usual_place = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw\n";

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

TEST_CASE("above memory.high a process hardly runs, so that is a limit too") {
  group_folder const group;
  group.write("memory.current", "700\n");
  group.write("memory.max", "max\n");
  group.write("memory.high", "900\n");
  CHECK(group.left() == 200);
  group.write("memory.max", "800\n");
  CHECK(group.left() == 100);
  group.write("memory.high", "max\n");
  CHECK(group.left() == 100);
}

TEST_CASE("the tightest of a process's groups of version 2 counts, and of their limits of swap") {
  system_folder const here;
  std::string const groups = "/sys/fs/cgroup";
  here.write("/proc/self/cgroup", "0::/job/step\n");
  here.mount(newer_at_usual_place);
  here.write("/proc/meminfo", "MemTotal: 9 kB\nSwapFree:       4 kB\n");
  CHECK(here.left() == unlimited_memory);
  here.limit(groups + "/job", 1000, 400);
  here.write(groups + "/job/step/memory.max", "max\n");
  here.write(groups + "/job/step/memory.current", "300\n");
  CHECK(here.left() == 600 + 4096);
  here.write(groups + "/job/step/memory.high", "350\n");
  CHECK(here.left() == 50 + 4096);
  here.write(groups + "/job/memory.swap.max", "100\n");
  here.write(groups + "/job/memory.swap.current", "30\n");
  CHECK(here.left() == 50 + 70);
  here.write(groups + "/job/step/memory.swap.max", "0\n");
  here.write(groups + "/job/step/memory.swap.current", "0\n");
  CHECK(here.left() == 50);
}

TEST_CASE("where groups of version 1 and 2 are mounted, either may limit memory") {
  system_folder const here;
  here.write("/proc/self/cgroup", "5:cpu:/else\n4:hugetlb,memory:/old\n0::/new\n");
  here.mount(
      "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
      "35 31 0:32 / /sys/fs/cgroup/memory rw shared:2 master:1 - cgroup cgroup rw,hugetlb,memory\n"
      "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  here.write("/sys/fs/cgroup/memory/old/memory.limit_in_bytes", "1000\n");
  here.write("/sys/fs/cgroup/memory/old/memory.usage_in_bytes", "100\n");
  CHECK(here.left() == 900);
  here.limit("/sys/fs/cgroup/unified/new", 500, 100);
  CHECK(here.left() == 400);
}

TEST_CASE("groups of version 1 limit memory and swap together") {
  system_folder const here;
  std::string const group = "/sys/fs/cgroup/memory/job";
  here.write("/proc/self/cgroup", "4:memory:/job\n");
  here.write("/proc/meminfo", "SwapFree: 4 kB\n");
  here.mount("35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  here.write(group + "/memory.limit_in_bytes", "1000\n");
  here.write(group + "/memory.usage_in_bytes", "700\n");
  here.write(group + "/memory.stat", "total_inactive_file 40\n");
  CHECK(here.left() == 340 + 4096);
  here.write(group + "/memory.memsw.limit_in_bytes", "1500\n");
  here.write(group + "/memory.memsw.usage_in_bytes", "800\n");
  CHECK(here.left() == 740);
  here.write(group + "/memory.memsw.limit_in_bytes", "100000\n");
  CHECK(here.left() == 340 + 4096);
}

TEST_CASE("groups are found where they are mounted, even if only a part of them is") {
  system_folder const here;
  here.write("/proc/self/cgroup", "0::/box/job\n");
  here.limit("/groups/job", 1000, 100);
  here.mount(newer_at_usual_place);
  CHECK(here.left() == unlimited_memory);
  here.mount("31 23 0:28 /box /groups rw,relatime - cgroup2 none rw\n");
  CHECK(here.left() == 900);
  here.limit("/groups", 600, 200);
  CHECK(here.left() == 400);
  here.mount(
      "31 23 0:28 /bo /groups rw,relatime - cgroup2 none rw\n");  // another group's, whose outer ones still count
  CHECK(here.left() == 400);
  here.write("/proc/self/cgroup", "0::box\n");  // which no system writes
  CHECK(here.left() == 400);
}

TEST_CASE("spaces in the paths of groups are written as numbers where they are mounted") {
  system_folder const here;
  here.write("/proc/self/cgroup", "0::/my box/job\n");
  here.limit("/all groups/job", 1000, 100);
  here.mount("31 23 0:28 /my\\040box /all\\040groups rw,relatime - cgroup2 none rw\n");
  CHECK(here.left() == 900);
}

TEST_CASE("without a limit, or without groups, memory is not limited") {
  group_folder const group;
  CHECK(group.left() == unlimited_memory);
  group.write("memory.current", "700\n");
  group.write("memory.max", "max\n");
  CHECK(group.left() == unlimited_memory);
  CHECK(memory_left() > 0);
}
