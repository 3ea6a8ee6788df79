// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The team of tutti over shared memory.
#include "team_tutti.hpp"

namespace {

struct team : bench::tutti_team<tutti::shm> {
  team(int, int) : tutti_team(tutti::init()) {}
};

}  // namespace

int main(int argc, char** argv) { return bench::run_team<team>(argc, argv); }
