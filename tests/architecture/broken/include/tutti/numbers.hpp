// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Includes what it uses.
#pragma once

#include <vector>

inline std::vector<int> const numbers{1, 2};
