// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The only macros of the library: its version, and what a CUDA compiler wants to see on a function.
#pragma once

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

#if defined(__CUDACC__)
#define TUTTI_HOST_DEVICE __host__ __device__
#else
#define TUTTI_HOST_DEVICE
#endif
