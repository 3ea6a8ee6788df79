// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Is included by chicken.hpp, which it includes before its own code.
#pragma once

#include "tutti/chicken.hpp"

struct egg {};
