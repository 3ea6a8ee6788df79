// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A library that, loaded before the C library, lets the fourth and the fifth fork of a process fail as if the system had no room.
#include <dlfcn.h>
#include <sys/types.h>

#include <cerrno>

extern "C" ::pid_t fork() noexcept {
  static int calls = 0;
  ++calls;
  if (calls == 4 || calls == 5) {
    errno = EAGAIN;
    return -1;
  }
  return reinterpret_cast<::pid_t (*)()>(::dlsym(RTLD_NEXT, "fork"))();
}
