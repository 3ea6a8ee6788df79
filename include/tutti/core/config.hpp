// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The only macros of the library: its version, and what compilers want to see on a function or a loop.
#pragma once

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

#if defined(__CUDACC__)
#define TUTTI_HOST_DEVICE __host__ __device__
#else
#define TUTTI_HOST_DEVICE
#endif

// Before a function of both that runs on the device only where all that it calls does.
#if defined(__CUDACC__)
#define TUTTI_UNCHECKED_CALLS _Pragma("nv_exec_check_disable")
#else
#define TUTTI_UNCHECKED_CALLS
#endif

// Before a loop of a few turns that is to be unrolled.
#if defined(__CUDACC__)
#define TUTTI_UNROLL _Pragma("unroll")
#else
#define TUTTI_UNROLL _Pragma("GCC unroll 8")
#endif

// Before a loop of a number of turns that only a call knows.
#if defined(__CUDACC__)
#define TUTTI_NO_UNROLL _Pragma("unroll 1")
#else
#define TUTTI_NO_UNROLL
#endif
