// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Is included by egg.hpp, which it includes before its own code.
#pragma once

#include "tutti/egg.hpp"

struct chicken {};
