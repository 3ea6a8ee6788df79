// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the system does from now on when this process asks for something: filters that count calls or refuse them.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <vector>

namespace tutti::testing {

// For the rest of this process: one action (SECCOMP_RET_...) for the calls that are listed, another for all others. False
// where the system takes no filters.
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
