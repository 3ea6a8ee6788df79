// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ranks of a process group, which are on one machine.
#pragma once

#include "tutti/tutti.hpp"

namespace tutti_torch {

using communicator = tutti::communicator<tutti::shm>;

}  // namespace tutti_torch
