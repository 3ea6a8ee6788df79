// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The CUDA runtime on the machine: a program that is linked with it instead of libcudart runs its kernels there, from the PTX
// that nvcc put into it. Variables of the environment:
//   PTX_GPUS          the number of GPUs (2)
//   PTX_MULTIPROCESSORS, PTX_BLOCKS   how many a GPU has (4), and how many blocks run on each at once (8)
//   PTX_SWITCH        1: a switch reaches the memory of all GPUs at once; 2: it fails at GPU 1; 0: there is none (0)
//   PTX_SEED          of the generator that interleaves threads (1)
//   PTX_SAVE          writes the PTX of the program's kernels to this file, and exits
//   PTX_LOAD          takes the PTX from this file instead, which may have made kernels wrong on purpose
//   PTX_COVERAGE      at the end, appends to this file what coverage.py needs to tell what was executed
//   PTX_EXPECT_FREED  1: a process that leaves memory, streams or events behind when it exits fails (0)
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ptx/machine.hpp"

namespace ptx = tutti::testing::ptx;

// Polls a piece of work of a stream, which ends when it returns true. An operation makes a new one each time that it is
// enqueued, because graphs are replayed.
using job = std::function<bool()>;
using operation = std::function<job()>;

struct CUgraph_st {
  std::vector<std::pair<CUstream_st*, operation>> operations;
};
struct CUgraphExec_st {
  CUgraph_st graph;
};
struct CUstream_st {
  struct queued {
    job run;
    ptx::shared_past enqueued;  // what comes before it besides what is ahead of it
  };
  int gpu = 0;
  ptx::agent agent;
  std::deque<queued> jobs;
  CUstream_st* captured_by = nullptr;  // the stream where its capture began
  CUgraph_st capture;                  // of that stream
  std::vector<CUstream_st*> joined;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  bool invalidated = false;
  bool blocking = false;  // it waits for the default stream, and that for it
};
struct CUevent_st {
  std::shared_ptr<CUevent_st> self;  // until the program destroys it; jobs and graphs keep it longer
  std::uint64_t recorded = 0, reached = 0;
  ptx::shared_past before;  // it was reached
  CUstream_st* captured_by = nullptr;
  std::chrono::steady_clock::time_point when{};
};

namespace tutti::testing::cuda {

std::uint64_t number_from_environment(char const* name, std::uint64_t otherwise);

struct kernel {
  std::shared_ptr<ptx::module const> code;
  ptx::function const* function;
};

class runtime {
 public:
  // Never destroyed: programs release memory and events in destructors of static objects.
  static runtime& instance() {
    static runtime& one = *new runtime;
    return one;
  }

  int gpus() const { return gpus_; }
  std::recursive_mutex& guard() { return guard_; }
  ptx::machine& machine() { return machine_; }
  cudaError_t sticky() const { return sticky_; }

  // -- Kernels.
  struct binary {
    std::string_view text;
    std::string loaded;
    std::shared_ptr<ptx::module const> code;
  };
  std::vector<std::unique_ptr<binary>> binaries;
  struct registered {
    binary* of;
    std::string name;
  };
  std::map<void const*, registered> functions;
  bool launched = false;  // any of them

  std::optional<kernel> find(void const* function);

  void register_binary(std::string_view text);
  // In one piece, because several processes may append.
  void append_coverage(char const* path);

  // -- Streams.
  CUstream_st* stream_of(cudaStream_t stream, int gpu);
  std::set<CUstream_st*>& streams() { return streams_; }

  void enqueue(CUstream_st& stream, operation const& what);

  // Runs jobs and threads for a while. Returns whether there is any work left.
  bool advance(int steps);
  // Runs until `done()`, or an error.
  template <class Done>
  cudaError_t run_until(Done done) {
    while (true) {
      {
        std::lock_guard const lock(guard_);
        if (sticky_ != cudaSuccess) return sticky_;
        if (done()) return cudaSuccess;
        advance(1000);
      }
      rest();
    }
  }
  cudaError_t wait_for_all() {
    return wait_for_streams([](CUstream_st const&) { return true; });
  }
  cudaError_t wait_for_gpu(int gpu) {
    return wait_for_streams([gpu](CUstream_st const& s) { return s.gpu == gpu; });
  }
  // Whether nothing is left to do in the stream; if so, the host knows it.
  bool has_ended(CUstream_st& stream);
  bool is_reached(CUevent_st const& event);

  // -- Memory. Device memory is a file, so that other processes can map it.
  struct allocation {
    int file;
    std::size_t bytes;
    int gpu;
    bool pooled = false;  // accessible to its own GPU alone
  };
  std::map<void*, allocation> allocations;
  // The allocation that contains an address, or null.
  allocation const* allocation_of(void const* memory) const;
  std::map<void*, std::size_t> opened;
  std::set<void*> pinned;  // and what is registered

  // What handles of cuMemCreate and cuMulticastCreate name, each a file. That of a team lists the memory that is bound to it.
  struct handle {
    int file;
    std::size_t bytes;
    int gpu;
    bool imported = false;
    std::byte* mapped = nullptr;
  };
  struct team {
    struct member {
      std::atomic<pid_t> process;  // 0: there is none yet
      int file;
    };
    static constexpr std::size_t bytes = 4096;

    std::atomic<std::uint32_t> size, added;
    member members[ptx::machine::gpus_at_most];
  };
  std::map<CUmemGenericAllocationHandle, handle> handles;
  CUmemGenericAllocationHandle last_handle = 0;
  std::map<CUmemGenericAllocationHandle, team*> teams;       // those that handles name
  std::map<CUdeviceptr, std::vector<void*>> opened_members;  // by the address of a team, of other processes

  int events = 0, graphs = 0;

  // What the program has made and neither freed nor destroyed; empty after a fault, which ends what there is.
  std::string left() const;

 private:
  template <class Counts>
  cudaError_t wait_for_streams(Counts counts) {
    return run_until([this, counts] {
      for (CUstream_st const* const s : streams_)
        if (counts(*s) && !s->jobs.empty()) return false;
      for (CUstream_st* const s : streams_)
        if (counts(*s)) host_.learn(s->agent.release());
      return true;
    });
  }
  runtime();

  void load(binary& of);

  // GPUs work while the host does not ask for it, but then the result depends on time.
  void ensure_helper();

  // Threads of kernels that poll for what the host or another process does would take the core from it. While they do, the GPUs sleep
  // as long as they have been waiting, up to a limit. An operation that the host enqueues wakes them.
  void sleep_if_stalled();
  // For a thread of the host, between two calls of advance.
  void rest();

  static constexpr std::chrono::milliseconds longest_sleep{3};
  std::chrono::steady_clock::time_point stalled_since_{}, sleeps_until_{};

  int gpus_;
  std::recursive_mutex guard_;
  ptx::machine machine_;
  ptx::agent host_;
  std::vector<CUstream_st> default_streams_;
  std::set<CUstream_st*> streams_;
  cudaError_t sticky_ = cudaSuccess;
  bool helped_ = false;
  std::chrono::steady_clock::time_point last_advance_{};
};

// What CUDA keeps for each thread of the host.
inline thread_local int current_gpu = 0;
inline thread_local bool has_context = false;
inline thread_local cudaError_t last_error = cudaSuccess;
inline thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

cudaError_t note(cudaError_t code);
std::unique_lock<std::recursive_mutex> lock();
// A call that CUDA forbids during a capture in global mode; it spoils the capture.
bool spoils_capture();
bool is_pageable(void const* memory);

// Functions of the driver by their names.
using driver_functions = std::map<std::string_view, void*>;
driver_functions functions_of_mapped_memory();

}  // namespace tutti::testing::cuda
