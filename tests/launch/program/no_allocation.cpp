// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A library that, loaded before the C library, ends each forked process that allocates before it executes a program: a thread of its
// parent may have held the lock of malloc.
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>

extern "C" {

void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);

static bool is_child = false;
static void expect_parent() {
  if (is_child) ::_exit(77);
}

::pid_t fork() noexcept {
  ::pid_t const process = reinterpret_cast<::pid_t (*)()>(::dlsym(RTLD_NEXT, "fork"))();
  is_child = process == 0;
  return process;
}
void* malloc(std::size_t bytes) noexcept {
  expect_parent();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  expect_parent();
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) noexcept {
  expect_parent();
  return __libc_realloc(memory, bytes);
}

}  // extern "C"
