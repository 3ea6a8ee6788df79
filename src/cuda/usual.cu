// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti::cuda_compiled: the templates that most programs with GPUs use.
#define TUTTI_COMPILES_USUAL
#include "tutti/device/on/usual.cuh"
