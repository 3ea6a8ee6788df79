// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/shared_memory/segment_file.hpp.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tutti/core/environment.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/random.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/shared_memory/segment_file.hpp"

namespace tutti::detail {

TUTTI_INLINE std::size_t heap_bytes(int ranks, std::size_t space) {
  if (std::string_view const text = environment_variable("TUTTI_HEAP"); !text.empty()) {
    std::size_t const most = half_of_all_addresses / static_cast<std::size_t>(ranks);
    std::uint64_t bytes = 0;
    if (read_number(text, most, bytes) != text.size())
      throw error({.code = error_code::bad_argument,
                   .what = join({"TUTTI_HEAP=\"", text, "\" is not a number of bytes from 0 to ", most,
                                 ", which is what ", ranks, " ranks can address"}),
                   .way_out = "allow for comm.allocate and for the buffers of the calls of a rank, e.g. 1073741824"});
    return (bytes + page - 1) / page * page;
  }
  std::size_t const machine =
      static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // Each rank maps the heaps of all; where its addresses are limited, the program needs most of them itself.
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    space = std::min<std::size_t>(space, limit.rlim_cur / 4);
  std::size_t const share = space / static_cast<std::size_t>(ranks) / page * page;
  return std::min(machine, share);
}

TUTTI_INLINE descriptor create_segment_file(int ranks, int tracks, std::size_t heap_space) {
  descriptor file(::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::fchmod(file.get(), 0600) != 0)
    throw_system("memfd_create failed",
                 "tutti's shared memory needs Linux 3.17 or later, and a sandbox that allows this call");
  std::size_t const bytes = segment(nullptr, ranks, tracks, detail::heap_bytes(ranks, heap_space)).bytes();
  // Where the limit of file sizes is lower, ftruncate ends the process by a signal.
  rlimit limit{};
  bool const allowed = ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur;
  if (!allowed || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    throw_system(join({"cannot set the size of shared memory to ", bytes, " bytes"}),
                 "set TUTTI_HEAP to fewer bytes, or raise the limit of file sizes (ulimit -f)",
                 allowed ? errno : EFBIG);
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw_system("cannot seal the size of the shared memory", "");
  std::uint64_t const identity = random_number();
  if (::pwrite(file.get(), &identity, sizeof identity, offsetof(segment_header, identity)) != sizeof identity)
    throw_system("cannot mark the shared memory", "");
  return file;
}

TUTTI_INLINE segment_mapping::segment_mapping(descriptor const& file, int ranks, int tracks)
    : segment_mapping(file, ranks, tracks, heap_bytes_of(file, ranks, tracks)) {}

TUTTI_INLINE segment_mapping::segment_mapping(descriptor const& file, int ranks, int tracks, std::size_t heap_bytes) {
  std::size_t const bytes = segment(nullptr, ranks, tracks, heap_bytes).bytes();
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (base == MAP_FAILED)
    throw_system(join({"cannot map ", bytes, " bytes of shared memory"}),
                 "set TUTTI_HEAP to fewer bytes, or raise the limit of virtual memory (ulimit -v)");
  ::madvise(base, bytes, MADV_DONTDUMP);
  memory_ = segment(static_cast<std::byte*>(base), ranks, tracks, heap_bytes);
}

TUTTI_INLINE segment_mapping::~segment_mapping() {
  if (memory_.base() != nullptr) ::munmap(memory_.base(), memory_.bytes());
}

TUTTI_INLINE segment_mapping segment_mapping::front(descriptor const& file, int ranks, int tracks) {
  expect_file_for(file, ranks, tracks);
  return {file, ranks, 0, 0};
}

TUTTI_INLINE void segment_mapping::expect_file_for(descriptor const& file, int ranks, int tracks) {
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) throw_system("cannot read the size of the shared memory", "");
  if (info.st_uid != ::geteuid())
    throw error(
        {.code = error_code::system,
         .what = join({"the shared memory belongs to user ", info.st_uid, ", not to this one (", ::geteuid(), ")"}),
         .way_out = "start all ranks as one user"});
  if (static_cast<std::size_t>(info.st_size) < segment(nullptr, ranks, tracks, 0).bytes())
    throw error({.code = error_code::mismatch,
                 .what = join({"the shared memory was made for fewer ranks than ", ranks}),
                 .way_out = "start all ranks with the same number of ranks and the same tutti"});
}

TUTTI_INLINE std::size_t segment_mapping::heap_bytes_of(descriptor const& file, int ranks, int tracks) {
  expect_file_for(file, ranks, tracks);
  struct stat info{};
  ::fstat(file.get(), &info);
  std::size_t const others = segment(nullptr, ranks, tracks, 0).bytes();
  return (static_cast<std::size_t>(info.st_size) - others) / static_cast<std::size_t>(ranks);
}

}  // namespace tutti::detail
