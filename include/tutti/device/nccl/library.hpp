// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions of NCCL, found when a program needs them: it neither links NCCL nor includes its header. tests/cuda/nccl.cpp compares
// these declarations with nccl.h.
#pragma once

#include <climits>
#include <cstddef>
#include <string>

#include "tutti/core/config.hpp"

namespace tutti::detail::nccl {

struct communicator;

enum class result : int { success, cuda, system, internal, argument, usage, remote, in_progress };
constexpr bool failed(result r) { return r != result::success && r != result::in_progress; }
enum class data_type : int {
  int8,
  uint8,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  float32,
  float64,
  bfloat16,
  none = INT_MAX
};
enum class operation : int { sum, product, max, min, none = INT_MAX };

struct unique_id {
  char internal[128];
};

// As of NCCL 2.14. Later versions give settings that are missing their defaults.
struct settings {
  std::size_t size = sizeof(settings);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
  int unused = 0;
};

struct functions {
  result (*get_version)(int*);
  result (*get_unique_id)(unique_id*);
  result (*init_rank)(communicator**, int ranks, unique_id, int rank, settings*);
  result (*finalize)(communicator*);
  result (*destroy)(communicator*);
  result (*abort)(communicator*);
  result (*get_async_error)(communicator*, result*);
  char const* (*get_error_string)(result);
  char const* (*get_last_error)(communicator*);
  result (*group_start)();
  result (*group_end)();
  result (*all_reduce)(void const*, void*, std::size_t, data_type, operation, communicator*, void* stream);
  result (*reduce)(void const*, void*, std::size_t, data_type, operation, int root, communicator*, void* stream);
  result (*reduce_scatter)(void const*, void*, std::size_t, data_type, operation, communicator*, void* stream);
  result (*broadcast)(void const*, void*, std::size_t, data_type, int root, communicator*, void* stream);
  result (*all_gather)(void const*, void*, std::size_t, data_type, communicator*, void* stream);
  result (*send)(void const*, std::size_t, data_type, int peer, communicator*, void* stream);
  result (*recv)(void*, std::size_t, data_type, int peer, communicator*, void* stream);
};

struct library {
  functions api{};
  int version = 0;  // 22809: 2.28.9

  // Loads libnccl.so.2, or the file that TUTTI_NCCL names. It stays loaded. Throws error: system, if there is none, it is older
  // than 2.18, or TUTTI_NCCL is 0.
  [[gnu::cold]] static library load();

  [[gnu::cold]] std::string version_text() const;
  // Describes a result of `comm`, which may be null.
  [[gnu::cold]] std::string text_of(result what, communicator* comm) const;
};

}  // namespace tutti::detail::nccl

#if !defined(TUTTI_COMPILED)
#include "tutti/device/nccl/library_impl.hpp"
#endif
