// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives and messages of objects, serialised by cereal, which must be installed.
#pragma once

#include "tutti/core/config.hpp"  // first, because it refuses compilers that are too old

#include "tutti/collective/objects.hpp"
#include "tutti/message/objects.hpp"
