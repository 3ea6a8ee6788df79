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

// Before a template of both sides that calls what an element's type brings, which may be the host's alone: on a device it
// fails where it is called there, and not before.
#if defined(__CUDACC__)
#define TUTTI_CALLS_ANY _Pragma("nv_exec_check_disable")
#else
#define TUTTI_CALLS_ANY
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
