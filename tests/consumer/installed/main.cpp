// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two ranks that load two plugins, each of which calls tutti::init().
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace {

// g++ gives what a process has once a kind of symbol that is shared with local libraries too.
#if defined(__clang__)
constexpr int scope = RTLD_GLOBAL;
#else
constexpr int scope = RTLD_LOCAL;
#endif

bool has_sum(char const* plugin) {
  void* const library = ::dlopen(plugin, RTLD_NOW | scope);
  void* const sum = library != nullptr ? ::dlsym(library, "sum_of_ranks") : nullptr;
  if (sum == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    return false;
  }
  return reinterpret_cast<int (*)()>(sum)() == 3;
}

}  // namespace

int main() {
  ::setenv("TUTTI_SIZE", "2", 1);
  ::setenv("TUTTI_JOB", ("plugins-" + std::to_string(::getpid())).c_str(), 1);
  ::setenv("TUTTI_TIMEOUT", "60", 1);
  ::pid_t const other = ::fork();
  ::setenv("TUTTI_RANK", other == 0 ? "1" : "0", 1);
  bool const works = has_sum(FIRST_PLUGIN) && has_sum(SECOND_PLUGIN);
  if (other == 0) return works ? 0 : 1;
  int ended = 1;
  ::waitpid(other, &ended, 0);
  return works && ended == 0 ? 0 : 1;
}
