// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds out which launcher started this process, and as which rank.
#pragma once

#include <string>

#include "tutti/core/config.hpp"

namespace tutti {

// The place of a process in its job.
struct place {
  int rank = 0;
  int size = 1;
  int local_size = 1;    // how many of them run on this machine
  std::string launcher;  // empty if there is none
  std::string job;       // the same at all ranks of the job, at least on this machine
};

// Reads the environment. Throws bad_argument if it contradicts itself.
[[gnu::cold]] place find_place();

namespace detail {

// The variable by which a launcher tells the ranks of an elastic job the least and the greatest number of ranks, such as 2:8.
inline constexpr char const* elastic_variable = "TUTTI_ELASTIC";
// The variable that makes a process a newcomer to a running job (launch/newcomers.hpp), and gives it a number.
inline constexpr char const* join_variable = "TUTTI_ELASTIC_JOIN";

}  // namespace detail

}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/launch/place_impl.hpp"
#endif
