// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Includes mpi.h, although its name does not say so.
#pragma once

#include <mpi.h>
