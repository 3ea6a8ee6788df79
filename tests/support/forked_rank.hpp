// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that are processes forked by a test, which can stop and kill them.
#pragma once

#include <doctest/doctest.h>

#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "support/environment.hpp"
#include "tutti/core/error.hpp"

namespace tutti::testing {

// Starts a rank of a job, in which body() may call init(). Its exit code is 0, 1 plus the error's code, or 100 for any
// other exception.
template <class Body>
pid_t fork_rank(std::string const& job, int rank, int size, std::string const& timeout, Body const& body) {
  pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child != 0) return child;
  environment const place{{"TUTTI_RANK", std::to_string(rank)},
                          {"TUTTI_SIZE", std::to_string(size)},
                          {"TUTTI_JOB", job},
                          {"TUTTI_TIMEOUT", timeout}};
  int code = 0;
  try {
    body();
  } catch (error const& e) {
    std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    code = 1 + static_cast<int>(e.code());
  } catch (std::exception const& e) {
    std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    code = 100;
  }
  ::_exit(code);
}

}  // namespace tutti::testing
