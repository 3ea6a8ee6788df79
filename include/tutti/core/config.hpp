// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The macros of the library that stay defined: supported compilers, the version, where definitions are compiled, and annotations of
// functions and loops.
#pragma once

// Included first everywhere. A compiler stops at a header that it does not find, so an old one prints this line alone.
#if (defined(__clang__) && __clang_major__ < 16) || (!defined(__clang__) && defined(__GNUC__) && __GNUC__ < 12) || \
    __cplusplus < 202002L
#include <tutti needs g++ 12 or clang 16, or a later one, and -std=c++20 or later>
#endif
#if !defined(__cpp_exceptions) && !defined(__CUDA_ARCH__)
#include <tutti needs exceptions, by which it reports errors: compile without -fno-exceptions>
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

// Two ways to compile. Functions that are neither templates nor on a hot path are declared in x.hpp and defined in
// x_impl.hpp, each definition marked TUTTI_INLINE. Header-only, x.hpp includes x_impl.hpp at its end. If the program
// links tutti::compiled, which defines TUTTI_COMPILED, src/ includes x_impl.hpp instead, and the program compiles none
// of it. All of them are cold, so a compiler optimises them for size, which takes it less time. They belong to the host,
// so nvcc needs only their declarations where it compiles for a device, unless it links code of several sources there.
//
// What needs the headers of CUDA is in x.cuh and x_impl.cuh, marked TUTTI_CUDA_INLINE, and in tutti::cuda_compiled, which defines
// TUTTI_CUDA_COMPILED besides.
#if defined(__NVCC__) && defined(__CUDA_ARCH__) && !defined(__CUDACC_RDC__)
#if !defined(TUTTI_COMPILED)
#define TUTTI_COMPILED
#endif
#if !defined(TUTTI_CUDA_COMPILED)
#define TUTTI_CUDA_COMPILED
#endif
#endif
#if defined(TUTTI_COMPILED)
#define TUTTI_INLINE [[gnu::cold]]
#else
#define TUTTI_INLINE [[gnu::cold]] inline
#endif
#if defined(TUTTI_CUDA_COMPILED)
#define TUTTI_CUDA_INLINE
#else
#define TUTTI_CUDA_INLINE inline
#endif

// Begins a line of launch/usual.hpp: an instantiation that only src/usual.cpp compiles.
#if defined(TUTTI_COMPILES_USUAL)
#define TUTTI_USUAL template
#else
#define TUTTI_USUAL extern template
#endif

#if defined(__CUDACC__)
#define TUTTI_HOST_DEVICE __host__ __device__
#define TUTTI_DEVICE __device__
#else
#define TUTTI_HOST_DEVICE
#define TUTTI_DEVICE
#endif

// Of a class whose objects must not be dropped. nvcc 13 also warns where one is assigned or passed on.
#if defined(__CUDACC__)
#define TUTTI_NODISCARD(why)
#else
#define TUTTI_NODISCARD(why) [[nodiscard(why)]]
#endif

// Before a template for host and device that calls operations of an element's type, which may exist only on the host:
// on a device it fails to compile only where it is called.
#if defined(__NVCC__)
#define TUTTI_CALLS_ANY _Pragma("nv_exec_check_disable")
#else
#define TUTTI_CALLS_ANY
#endif

// Before a loop with few iterations, to unroll it.
#if defined(__CUDACC__)
#define TUTTI_UNROLL _Pragma("unroll")
#else
#define TUTTI_UNROLL _Pragma("GCC unroll 8")
#endif

// Before a loop whose number of iterations is known only at run time.
#if defined(__CUDACC__)
#define TUTTI_NO_UNROLL _Pragma("unroll 1")
#else
#define TUTTI_NO_UNROLL
#endif
