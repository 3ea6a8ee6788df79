// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which cores share a last-level cache, according to folders as in Linux.
#include "tutti/transport/system/caches.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>

#include "support/temporary_folder.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

cpu_set_t cores(std::initializer_list<int> list) {
  cpu_set_t out;
  CPU_ZERO(&out);
  for (int const core : list) CPU_SET(static_cast<unsigned>(core), &out);
  return out;
}

// A folder like /sys/devices/system/cpu that describes a machine.
class machine {
 public:
  void add_cache(int core, int index, long long level, std::string const& shared) {
    auto const at = folder_.path() / ("cpu" + std::to_string(core)) / "cache" / ("index" + std::to_string(index));
    std::filesystem::create_directories(at);
    std::ofstream(at / "level") << level << '\n';
    std::ofstream(at / "shared_cpu_list") << shared << '\n';
  }
  int find(std::initializer_list<int> list) const { return last_level_cache(cores(list), folder_.path().string()); }

 private:
  testing::temporary_folder folder_;
};

}  // namespace

TEST_CASE("cores share a cache at the highest level that covers all of them") {
  machine m;
  for (int core = 0; core < 8; ++core) {
    std::string const own = std::to_string(core);
    m.add_cache(core, 0, 1, own);
    m.add_cache(core, 1, 1, own);  // of instructions
    m.add_cache(core, 2, 3, core % 4 < 2 ? "0-1,4-5" : "2,3,6-7");
    m.add_cache(core, 3, 2, own);
  }
  CHECK(m.find({0}) == 0);
  CHECK(m.find({5}) == 0);
  CHECK(m.find({1, 4, 5}) == 0);
  CHECK(m.find({3, 6}) == 2);
  CHECK(m.find({7}) == 2);
  CHECK(m.find({1, 2}) == no_cache);
  CHECK(m.find({0, 1, 2, 3, 4, 5, 6, 7}) == no_cache);
}

TEST_CASE("a level that is no number of 32 bits is ignored") {
  machine m;
  m.add_cache(0, 0, 3, "0-1");
  m.add_cache(0, 1, 99999999999, "0");
  CHECK(m.find({0, 1}) == 0);
}

TEST_CASE("without information, no cache is shared") {
  machine m;
  CHECK(m.find({0}) == no_cache);
  CHECK(m.find({}) == no_cache);
  m.add_cache(0, 0, 2, "nonsense");
  CHECK(m.find({0}) == no_cache);
}

TEST_CASE("this machine") {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  ::sched_getaffinity(0, sizeof mine, &mine);
  int const cache = last_level_cache(mine);
  CHECK((cache == no_cache || cache < CPU_SETSIZE));
}
