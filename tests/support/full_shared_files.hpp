// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A full /dev/shm that only this process sees, where the system allows that.
#pragma once

#include <fstream>
#include <sched.h>
#include <string>
#include <sys/mount.h>

namespace tutti::testing {

class full_shared_files {
 public:
  explicit full_shared_files(bool read_only = false) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return;
    mounted_ = ::mount("none", "/dev/shm", "tmpfs", 0, "size=4k") == 0;
    if (mounted_) std::ofstream("/dev/shm/full") << std::string(4096, 'x');
    if (mounted_ && read_only) ::mount("none", "/dev/shm", nullptr, MS_REMOUNT | MS_RDONLY, nullptr);
  }
  full_shared_files(full_shared_files const&) = delete;
  full_shared_files& operator=(full_shared_files const&) = delete;
  ~full_shared_files() {
    if (mounted_) ::umount2("/dev/shm", MNT_DETACH);
  }

 private:
  bool mounted_ = false;
};

}  // namespace tutti::testing
