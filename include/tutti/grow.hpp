// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processes that are started later join ranks.
#pragma once

#include "tutti/core/config.hpp"  // first, because it refuses compilers that are too old

#include "tutti/launch/grow.hpp"
