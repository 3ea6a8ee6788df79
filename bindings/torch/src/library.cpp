// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What tutti::compiled contains, because the extension is built without CMake.
// clang-format off
#include "../../../src/usual.cpp"  // first, because it says which templates are compiled here
#include "../../../src/definitions.cpp"
// clang-format on
