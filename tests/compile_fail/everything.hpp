// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The includes of almost all programs here, for a precompiled header.
#include <span>
#include <string>
#include <vector>

#include "tutti/tutti.hpp"
