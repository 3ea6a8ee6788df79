// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names std::vector without <vector>, which a program finds by way of numbers.hpp.
#pragma once

inline std::vector<int> const more_numbers{3, 4};
