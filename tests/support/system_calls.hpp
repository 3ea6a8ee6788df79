// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Filters of the system calls of this process, which count calls or reject them.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <vector>

namespace tutti::testing {

// Sets one action (SECCOMP_RET_...) for the listed calls and another for all others, for the rest of this process.
// False if the system does not accept filters.
inline bool filter_system_calls(std::initializer_list<unsigned> listed, unsigned for_listed, unsigned for_others) {
  std::vector<sock_filter> program{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (unsigned const number : listed) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, for_listed));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, for_others));
  sock_fprog const filter{static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace tutti::testing
