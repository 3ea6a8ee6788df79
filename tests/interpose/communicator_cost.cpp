// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What libtutti-mpi.so asks the system for while a program makes communicators, uses each for a few calls and frees it: counted, because
// a time would depend on the machine. The functions below stand before those of the C library, also for the calls of shared libraries.
// ranks: 2
// on tutti: MPI_Allreduce
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <mpi.h>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "program.hpp"

using namespace program;

namespace {

struct demands {
  long mappings = 0, mapped_bytes = 0, files = 0, wakes_and_sleeps = 0, others = 0;
};
demands of_tutti;

bool is_tutti(void const* caller) {
  Dl_info about{};
  return ::dladdr(caller, &about) != 0 && std::strstr(about.dli_fname, "libtutti-mpi") != nullptr;
}

void* map(void const* caller, void* at, std::size_t bytes, int protection, int flags, int file, off_t begin) {
  if (is_tutti(caller)) {
    ++of_tutti.mappings;
    of_tutti.mapped_bytes += static_cast<long>(bytes);
  }
  static auto* const next = reinterpret_cast<decltype(&::mmap)>(::dlsym(RTLD_NEXT, "mmap"));
  return next(at, bytes, protection, flags, file, begin);
}

}  // namespace

extern "C" void* mmap(void* at, std::size_t bytes, int protection, int flags, int file, off_t begin) noexcept {
  return map(__builtin_return_address(0), at, bytes, protection, flags, file, begin);
}
extern "C" void* mmap64(void* at, std::size_t bytes, int protection, int flags, int file, off_t begin) noexcept {
  return map(__builtin_return_address(0), at, bytes, protection, flags, file, begin);
}
extern "C" int memfd_create(char const* name, unsigned flags) noexcept {
  of_tutti.files += is_tutti(__builtin_return_address(0));
  static auto* const next = reinterpret_cast<decltype(&::memfd_create)>(::dlsym(RTLD_NEXT, "memfd_create"));
  return next(name, flags);
}
extern "C" int shm_open(char const* name, int flags, mode_t mode) {
  of_tutti.files += is_tutti(__builtin_return_address(0));
  static auto* const next = reinterpret_cast<decltype(&::shm_open)>(::dlsym(RTLD_NEXT, "shm_open"));
  return next(name, flags, mode);
}
extern "C" long syscall(long number, ...) noexcept {
  std::va_list rest;
  va_start(rest, number);
  long arguments[6];
  for (long& a : arguments) a = va_arg(rest, long);
  va_end(rest);
  if (is_tutti(__builtin_return_address(0))) ++(number == SYS_futex ? of_tutti.wakes_and_sleeps : of_tutti.others);
  static auto* const next = reinterpret_cast<long (*)(long, ...)>(::dlsym(RTLD_NEXT, "syscall"));
  return next(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

namespace {

constexpr int communicators = 100;

// What as many duplicates of the world demand, each of which is used for this many calls.
demands used_for(int calls) {
  demands const before = of_tutti;
  for (int i = 0; i < communicators; ++i) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int k = 0; k < calls; ++k) {
      int const one = 1;
      int sum = 0;
      MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
      expect(sum, size_of(comm), "a sum on a duplicate");
    }
    MPI_Comm_free(&comm);
  }
  demands out = of_tutti;
  out.mappings -= before.mappings;
  out.mapped_bytes -= before.mapped_bytes;
  out.files -= before.files;
  out.wakes_and_sleeps -= before.wakes_and_sleeps;
  out.others -= before.others;
  if (world_rank == 0)
    std::printf(
        "%d communicators of %d calls: %ld mappings of %ld bytes, %ld files, %ld futexes, %ld other system calls\n",
        communicators, calls, out.mappings, out.mapped_bytes, out.files, out.wakes_and_sleeps, out.others);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  bool const with_tutti = argc > 1 && std::strcmp(argv[1], "strict") == 0;
  return run(MPI_THREAD_SINGLE, [&](int) {
    // The counter works: rank 0 has made the memory of the world. All ranks have mapped it too, but UCX, in MPICH, hides that.
    if (world_rank == 0) expect(of_tutti.files > 0, with_tutti, "the number of files of the world");
    demands const brief = used_for(1), taken_over = used_for(3);
    expect(brief.mappings + brief.files + brief.wakes_and_sleeps + brief.others, 0L,
           "what communicators demand that the MPI serves");
    expect(taken_over.mappings + taken_over.files, 0L,
           "what communicators demand that tutti takes over, other than futexes");
  });
}
