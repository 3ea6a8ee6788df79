// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A control group of limited memory, inside that of this process, where the system allows it.
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "tutti/transport/system/memory_limit.hpp"

namespace tutti::testing {

// Touches so much private memory.
inline void take_memory(std::size_t bytes) {
  void* const all = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all != MAP_FAILED) std::memset(all, 1, bytes);
}

// Without swap, which would make room for what is above a limit.
class memory_group {
 public:
  explicit memory_group(std::size_t bytes) {
    if (detail::number_after("SwapTotal:", "", "/proc/meminfo") > 0) {
      refusal_ = "this machine has swap";
      return;
    }
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; folder_.empty() && std::getline(groups, line);) {
      bool const newer = line.starts_with("0::");
      std::size_t const at = newer ? 3 : line.find(":memory:") + 8;
      if (!newer && line.find(":memory:") == line.npos) continue;
      std::string const made = (newer ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory") + line.substr(at) + "/tutti-test-" +
                               std::to_string(::getpid());
      if (::mkdir(made.c_str(), 0755) != 0) {
        refusal_ = made + ": " + std::strerror(errno);
        continue;
      }
      folder_ = made;
      if (!write(newer ? "memory.max" : "memory.limit_in_bytes", std::to_string(bytes))) remove();
    }
    if (refusal_.empty() && folder_.empty()) refusal_ = "no control group of memory";
  }
  memory_group(memory_group const&) = delete;
  memory_group& operator=(memory_group const&) = delete;
  ~memory_group() { remove(); }

  // Why there is no such group; empty if there is one.
  std::string const& refusal() const { return refusal_; }
  std::string const& folder() const { return folder_; }
  // Moves this process into the group.
  bool enter() { return write("cgroup.procs", "0"); }

 private:
  bool write(char const* file, std::string const& text) {
    std::ofstream out(folder_ + "/" + file);
    if (out << text << std::flush) return true;
    refusal_ = folder_ + "/" + file + " cannot be written: " + std::strerror(errno);
    return false;
  }
  // Processes that have ended leave the group a moment later.
  void remove() {
    for (int i = 0; !folder_.empty() && ::rmdir(folder_.c_str()) != 0 && errno == EBUSY && i < 1000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    folder_.clear();
  }

  std::string folder_, refusal_;
};

}  // namespace tutti::testing
