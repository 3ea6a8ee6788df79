// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti::compiled: the templates that most programs use.
#define TUTTI_COMPILES_USUAL
#include "tutti/launch/usual.hpp"
