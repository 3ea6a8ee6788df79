// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What almost all programs here include, for a precompiled header.
#include <span>
#include <string>
#include <vector>

#include "tutti/tutti.hpp"
