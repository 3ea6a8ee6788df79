// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which launcher started this process, and as what.
#pragma once

#include <string>

#include "tutti/core/config.hpp"

namespace tutti {

// A process among those of its job.
struct place {
  int rank = 0;
  int size = 1;
  int local_size = 1;    // how many of them on this machine
  std::string launcher;  // empty: alone
  std::string job;       // the same at all ranks of the job, on this machine at least
};

// What the environment says. Throws bad_argument where it contradicts itself.
[[gnu::cold]] place find_place();

}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/launch/place_impl.hpp"
#endif
