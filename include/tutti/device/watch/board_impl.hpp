// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/watch/board.hpp.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tutti/core/config.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/watch/board.hpp"

namespace tutti::detail {

TUTTI_INLINE device_board_memory::device_board_memory(int ranks)
    : file_(::memfd_create("tutti-device", MFD_CLOEXEC | MFD_ALLOW_SEALING)), bytes_{device_board::bytes(ranks)} {
  if (!file_ || ::ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0 ||
      ::fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw_system("cannot create shared memory for device signals",
                 "check the limits of memory and open files (ulimit -a)");
  map();
}

TUTTI_INLINE device_board_memory::device_board_memory(place const& there, int ranks)
    : bytes_{device_board::bytes(ranks)} {
  std::string const path = join({"/proc/", there.process, "/fd/", there.file});
  file_ = descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat info{};
  if (!file_ || ::fstat(file_.get(), &info) != 0)
    throw_system(join({"cannot open ", path}), "start all ranks as the same user, in the same container");
  if (info.st_ino != there.number || static_cast<std::size_t>(info.st_size) != bytes_)
    throw error({.code = error_code::system,
                 .what = join({path, " is not the shared memory that rank 0 created"}),
                 .way_out = "start all ranks in the same container"});
  map();
}

TUTTI_INLINE device_board_memory::~device_board_memory() { ::munmap(base_, bytes_); }

TUTTI_INLINE device_board_memory::place device_board_memory::where() const {
  struct stat info{};
  ::fstat(file_.get(), &info);
  return {::getpid(), file_.get(), info.st_ino};
}

TUTTI_INLINE void device_board_memory::map() {
  void* const base = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (base == MAP_FAILED)
    throw_system("cannot map the shared memory for device signals", "raise the limit of virtual memory");
  base_ = static_cast<std::byte*>(base);
}

}  // namespace tutti::detail
