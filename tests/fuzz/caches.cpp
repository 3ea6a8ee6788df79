// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A list of cores, and the description of a cache: the level in the first line, the cores that share it after that.
// runs: 4000
#include <fstream>
#include <sched.h>
#include <string>

#include "fuzz/input.hpp"
#include "support/temporary_folder.hpp"
#include "tutti/transport/system/caches.hpp"

void take(std::string const& text) {
  using namespace tutti::detail;
  static tutti::testing::temporary_folder const at;
  static std::string const folder = at.path() / "cpu0" / "cache" / "index0";
  static bool const made = std::filesystem::create_directories(folder);
  require(made);
  std::size_t const line = text.find('\n');
  std::string const list = line == std::string::npos ? "" : text.substr(line + 1);
  std::ofstream(folder + "/level") << text.substr(0, line);
  std::ofstream(folder + "/shared_cpu_list") << list;
  cpu_set_t first;
  CPU_ZERO(&first);
  CPU_SET(0, &first);
  int const cache = last_level_cache(first, at.path());
  cpu_set_t const parsed = parse_cores(list.c_str());
  require(cache == no_cache || (cache == 0 && CPU_ISSET(0, &parsed)));
}
