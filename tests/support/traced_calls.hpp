// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A forked process whose system calls are counted, and which can be killed immediately before any of them.
#pragma once

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <fcntl.h>
#include <string>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tutti::testing {

// In the process to trace: its calls count from here on. False if the system does not allow it.
inline bool let_parent_trace() { return ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 && ::raise(SIGSTOP) == 0; }

// A letter for each call that changes files: o(pen to write), w(rite), f(sync), r(ename), m(kdir), u(nlink), d (rmdir).
inline char letter_of(__ptrace_syscall_info const& call) {
  switch (call.entry.nr) {
    case SYS_openat: return (call.entry.args[2] & O_ACCMODE) != O_RDONLY ? 'o' : '\0';
    case SYS_write: return 'w';
    case SYS_fsync: return 'f';
    case SYS_renameat2: return 'r';
    case SYS_mkdirat: return 'm';
    case SYS_unlinkat: return 'u';
#if defined(SYS_rename)
    case SYS_open: return (call.entry.args[1] & O_ACCMODE) != O_RDONLY ? 'o' : '\0';
    case SYS_rename: return 'r';
    case SYS_mkdir: return 'm';
    case SYS_unlink: return 'u';
    case SYS_rmdir: return 'd';
#endif
    case SYS_renameat: return 'r';
    default: return '\0';
  }
}

// Follows a child, which calls let_parent_trace() first, until it ends. Kills it immediately before the call number `last`
// that changes files, counted from 1; 0: never. Returns the letters of its calls; `status` tells how it ended.
inline std::string trace_calls(pid_t child, std::size_t last, int& status) {
  std::string out;
  if (::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return out;
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  int pass_on = 0;
  while (::ptrace(PTRACE_SYSCALL, child, nullptr, pass_on) == 0 && ::waitpid(child, &status, 0) == child) {
    if (!WIFSTOPPED(status)) return out;
    pass_on = 0;
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
      pass_on = WSTOPSIG(status);
      continue;
    }
    __ptrace_syscall_info call{};
    if (::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof call, &call) <= 0 || call.op != PTRACE_SYSCALL_INFO_ENTRY)
      continue;
    char const letter = letter_of(call);
    if (letter == '\0') continue;
    out += letter;
    if (out.size() != last) continue;
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return out;
  }
  return out;
}

}  // namespace tutti::testing
