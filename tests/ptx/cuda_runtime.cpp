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
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
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

namespace {

std::uint64_t number_from_environment(char const* name, std::uint64_t otherwise) {
  char const* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

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

  std::optional<kernel> find(void const* function) {
    auto const found = functions.find(function);
    if (found == functions.end()) return std::nullopt;
    binary& of = *found->second.of;
    load(of);
    launched = true;
    int const index = of.code->find(found->second.name);
    if (index < 0) return std::nullopt;
    return kernel{of.code, &of.code->functions[static_cast<std::size_t>(index)]};
  }

  void register_binary(std::string_view text) {
    binaries.push_back(std::make_unique<binary>(binary{text, {}, nullptr}));
    if (char const* const path = std::getenv("PTX_SAVE")) {
      std::ofstream(path) << text;
      std::_Exit(0);
    }
    if (char const* const path = std::getenv("PTX_LOAD")) {
      std::ifstream in(path);
      binaries.back()->loaded.assign(std::istreambuf_iterator<char>(in), {});
      binaries.back()->text = binaries.back()->loaded;
    }
    // Now rather than at the first launch, because ranks that are child processes share what is there before they start.
    try {
      load(*binaries.back());
    } catch (std::exception const&) {  // A launch fails with it.
    }
  }
  // In one piece, because several processes may append.
  void append_coverage(char const* path) {
    if (!launched) return;
    std::ostringstream lines;
    for (auto const& b : binaries) {
      load(*b);
      ptx::write_coverage(*b->code, lines);
    }
    std::string const text = lines.str();
    int const file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0 || ::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      std::fprintf(stderr, "PTX machine: %s cannot be written\n", path);
    ::close(file);
  }

  // -- Streams.
  CUstream_st* stream_of(cudaStream_t stream, int gpu) {
    bool const is_default = stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
    if (!is_default) return stream;
    return &default_streams_[static_cast<std::size_t>(gpu)];
  }
  std::set<CUstream_st*>& streams() { return streams_; }

  void enqueue(CUstream_st& stream, operation const& what) {
    if (stream.captured_by != nullptr) {
      stream.captured_by->capture.operations.emplace_back(&stream, what);
    } else {
      host_.learn(machine_.told());
      stream.jobs.push_back({what(), host_.release()});
      sleeps_until_ = {};
    }
    ensure_helper();
  }

  // Runs jobs and threads for a while. Returns whether there is any work left.
  bool advance(int steps) {
    std::lock_guard const lock(guard_);
    last_advance_ = std::chrono::steady_clock::now();
    if (sticky_ != cudaSuccess) return false;
    if (last_advance_ < sleeps_until_) return true;
    try {
      std::vector<CUstream_st*> all(streams_.begin(), streams_.end());
      for (std::size_t k = all.size(); k > 1; --k) std::swap(all[k - 1], all[machine_.random(k)]);
      bool left = false;
      for (CUstream_st* const s : all) {
        while (!s->jobs.empty()) {
          s->agent.learn(std::exchange(s->jobs.front().enqueued, nullptr));
          if (!s->jobs.front().run()) break;
          s->jobs.pop_front();
        }
        left |= !s->jobs.empty();
      }
      if (machine_.stalls()) steps /= 8;
      for (int k = 0; k < steps && !machine_.idle(); ++k) machine_.step();
      sleep_if_stalled();
      return left;
    } catch (ptx::fault const& e) {
      std::fprintf(stderr, "PTX machine: %s\n", e.what());
      switch (e.kind) {
        case ptx::fault::illegal_address: sticky_ = cudaErrorIllegalAddress; break;
        case ptx::fault::misaligned: sticky_ = cudaErrorMisalignedAddress; break;
        case ptx::fault::race: sticky_ = cudaErrorAssert; break;
        case ptx::fault::trap: sticky_ = cudaErrorLaunchFailure; break;
        case ptx::fault::illegal_instruction: sticky_ = cudaErrorIllegalInstruction; break;
        case ptx::fault::deadlock: sticky_ = cudaErrorLaunchTimeout; break;
      }
    } catch (std::exception const& e) {
      std::fprintf(stderr, "PTX machine: %s\n", e.what());
      sticky_ = cudaErrorInvalidPtx;
    }
    return false;
  }
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
  bool has_ended(CUstream_st& stream) {
    if (!stream.jobs.empty()) return false;
    host_.learn(stream.agent.release());
    return true;
  }
  bool is_reached(CUevent_st const& event) {
    if (event.reached != event.recorded) return false;
    host_.learn(event.before);
    return true;
  }

  // -- Memory. Device memory is a file, so that other processes can map it.
  struct allocation {
    int file;
    std::size_t bytes;
    int gpu;
    bool pooled = false;  // accessible to its own GPU alone
  };
  std::map<void*, allocation> allocations;
  // The allocation that contains an address, or null.
  allocation const* allocation_of(void const* memory) const {
    auto const after = allocations.upper_bound(const_cast<void*>(memory));
    if (after == allocations.begin()) return nullptr;
    auto const& [begin, found] = *std::prev(after);
    return memory < static_cast<std::byte const*>(begin) + found.bytes ? &found : nullptr;
  }
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
  std::string left() const {
    std::string out;
    auto const add = [&](std::size_t count, char const* what) {
      if (count > 0) out += (out.empty() ? "" : ", ") + std::string(what) + " (" + std::to_string(count) + ")";
    };
    if (sticky_ != cudaSuccess) return out;
    add(allocations.size(), "arrays in device memory");
    add(opened.size(), "mappings of other processes' memory");
    add(pinned.size(), "arrays in pinned memory");
    add(handles.size(), "handles of memory");
    add(streams_.size() - default_streams_.size(), "streams");
    add(static_cast<std::size_t>(events), "events");
    add(static_cast<std::size_t>(graphs), "graphs");
    return out;
  }

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
  runtime()
      : gpus_(static_cast<int>(number_from_environment("PTX_GPUS", 2))),
        machine_(number_from_environment("PTX_SEED", 1), ptx::machine::on_race::fail,
                 {.multiprocessors = static_cast<int>(number_from_environment("PTX_MULTIPROCESSORS", 4)),
                  .blocks_each = static_cast<int>(number_from_environment("PTX_BLOCKS", 8))}),
        host_(machine_.new_agent(0)),
        default_streams_(static_cast<std::size_t>(gpus_)) {
    for (std::size_t k = 0; k < default_streams_.size(); ++k) {
      default_streams_[k].gpu = static_cast<int>(k);
      default_streams_[k].agent = machine_.new_agent(static_cast<int>(k));
      streams_.insert(&default_streams_[k]);
    }
  }

  void load(binary& of) {
    if (of.code != nullptr) return;
    of.code = ptx::parse(of.text);
    for (auto const& words : of.code->globals)
      machine_.memory().add(const_cast<std::uint64_t*>(words.data()), words.size() * 8, {.written = true});
  }

  // GPUs work while the host does not ask for it, but then the result depends on time.
  void ensure_helper() {
    if (helped_) return;
    helped_ = true;
    std::thread([this] {
      while (true) {
        std::this_thread::sleep_for(std::chrono::milliseconds{5});
        bool work = false;
        {
          std::lock_guard const lock(guard_);
          work = std::chrono::steady_clock::now() - last_advance_ > std::chrono::milliseconds{20};
        }
        while (work && advance(1000)) rest();
      }
    }).detach();
  }

  // Threads of kernels that poll for what the host or another process does would take the core from it. While they do, the GPUs sleep
  // as long as they have been waiting, up to a limit. An operation that the host enqueues wakes them.
  void sleep_if_stalled() {
    auto const now = std::chrono::steady_clock::now();
    if (!machine_.stalls()) stalled_since_ = now;
    else sleeps_until_ = now + std::min<std::chrono::steady_clock::duration>(now - stalled_since_, longest_sleep);
  }
  // For a thread of the host, between two calls of advance.
  void rest() {
    std::unique_lock lock(guard_);
    auto const until = sleeps_until_;
    lock.unlock();
    if (std::chrono::steady_clock::now() < until) std::this_thread::sleep_until(until);
    else std::this_thread::yield();
  }

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

thread_local int current_gpu = 0;
thread_local bool has_context = false;
thread_local cudaError_t last_error = cudaSuccess;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

struct configuration {
  dim3 blocks, threads;
  std::size_t shared;
  CUstream_st* stream;
};
thread_local std::vector<configuration> configurations;

cudaError_t note(cudaError_t code) {
  if (code != cudaSuccess) last_error = code;
  return code;
}
std::unique_lock<std::recursive_mutex> lock() { return std::unique_lock(runtime::instance().guard()); }
// A call that CUDA forbids during a capture in global mode; it spoils the capture.
bool spoils_capture() {
  if (capture_mode == cudaStreamCaptureModeRelaxed) return false;
  bool out = false;
  for (CUstream_st* const s : runtime::instance().streams())
    if (s->captured_by == s && s->mode == cudaStreamCaptureModeGlobal) s->invalidated = out = true;
  return out;
}

cudaError_t launch(void const* function, dim3 blocks, dim3 threads, void** arguments, cudaStream_t stream,
                   bool together) {
  auto const held = lock();
  runtime& here = runtime::instance();
  has_context = true;
  if (here.sticky() != cudaSuccess) return note(here.sticky());
  std::optional<kernel> found;
  try {
    found = here.find(function);
  } catch (std::exception const& e) {
    std::fprintf(stderr, "PTX machine: %s\n", e.what());
    return note(cudaErrorInvalidPtx);
  }
  if (!found) return note(cudaErrorInvalidDeviceFunction);
  if (blocks.x == 0 || threads.x == 0 || blocks.y * blocks.z * threads.y * threads.z != 1 || threads.x > 1024)
    return note(cudaErrorInvalidConfiguration);
  if (together && static_cast<int>(blocks.x) > here.machine().size().blocks())
    return note(cudaErrorCooperativeLaunchTooLarge);
  CUstream_st& to = *here.stream_of(stream, current_gpu);
  std::vector<std::byte> parameters(found->function->parameter_bytes);
  for (std::size_t k = 0; k < found->function->parameters.size(); ++k) {
    ptx::parameter const& p = found->function->parameters[k];
    std::memcpy(parameters.data() + p.offset, arguments[k], p.bytes);
  }
  here.enqueue(to, [=, &here, on = &to, kernel = *found]() -> job {
    return [=, &here, running = std::shared_ptr<ptx::grid>()]() mutable {
      if (running == nullptr) {
        running =
            std::make_shared<ptx::grid>(ptx::grid{kernel.code, kernel.function, parameters, static_cast<int>(blocks.x),
                                                  static_cast<int>(threads.x), together, on->gpu, on->agent.release()});
        here.machine().start(running);
      }
      if (!running->done()) return false;
      on->agent.learn(running->after());
      return true;
    };
  });
  return cudaSuccess;
}

// Once, if this process has launched kernels.
void append_coverage() {
  char const* const path = std::getenv("PTX_COVERAGE");
  if (path == nullptr) return;
  auto const held = lock();
  static bool appended = false;
  if (!std::exchange(appended, true)) runtime::instance().append_coverage(path);
}

// Whether this process may succeed.
bool has_freed_all() {
  if (number_from_environment("PTX_EXPECT_FREED", 0) == 0) return true;
  auto const held = lock();
  std::string const left = runtime::instance().left();
  if (!left.empty()) std::fprintf(stderr, "PTX machine: the program leaves behind %s\n", left.c_str());
  return left.empty();
}

bool is_pageable(void const* memory) {
  return runtime::instance().machine().memory().containing(reinterpret_cast<std::uint64_t>(memory)) == nullptr;
}
void expose(void* memory, std::size_t bytes) {
  runtime::instance().pinned.insert(memory);
  runtime::instance().machine().memory().add(memory, bytes, {.written = true, .foreign = true});
}
void hide(void* memory) {
  runtime::instance().machine().memory().remove(memory);
  runtime::instance().pinned.erase(memory);
}

CUresult get_error_name(CUresult code, char const** out) {
  *out = cudaGetErrorName(static_cast<cudaError_t>(code));
  return CUDA_SUCCESS;
}
CUresult get_current_context(CUcontext* out) {
  *out = has_context ? reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(current_gpu + 1)) : nullptr;
  return CUDA_SUCCESS;
}
CUresult get_current_device(CUdevice* out) {
  *out = current_gpu;
  return CUDA_SUCCESS;
}
CUresult set_current_context(CUcontext context) {
  has_context = context != nullptr;
  if (has_context) current_gpu = static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1;
  return CUDA_SUCCESS;
}
CUresult get_address_range(CUdeviceptr* begin, std::size_t* bytes, CUdeviceptr inside) {
  auto const held = lock();
  auto const* const found = runtime::instance().machine().memory().containing(inside);
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (begin != nullptr) *begin = found->begin;
  if (bytes != nullptr) *bytes = found->bytes;
  return CUDA_SUCCESS;
}
CUresult get_pointer_attribute(void* out, CUpointer_attribute which, CUdeviceptr of) {
  auto const held = lock();
  auto const* const found = runtime::instance().allocation_of(reinterpret_cast<void const*>(of));
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *static_cast<int*>(out) = !found->pooled; break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      *static_cast<unsigned*>(out) = found->pooled && found->gpu != current_gpu
                                         ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE
                                         : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
      break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *static_cast<void**>(out) = found->pooled ? const_cast<void*>(static_cast<void const*>(found)) : nullptr;
      break;
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}
CUresult batch_memory_operations(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations, unsigned) {
  auto const held = lock();
  runtime& here = runtime::instance();
  CUstream_st& to = *here.stream_of(stream, current_gpu);
  for (unsigned k = 0; k < count; ++k) {
    CUstreamBatchMemOpParams const& o = operations[k];
    bool const waits = o.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32;
    if (!waits && o.operation != CU_STREAM_MEM_OP_WRITE_VALUE_32) return CUDA_ERROR_NOT_SUPPORTED;
    if (waits && o.waitValue.flags != CU_STREAM_WAIT_VALUE_EQ) return CUDA_ERROR_NOT_SUPPORTED;
    auto* const word = reinterpret_cast<std::uint32_t*>(waits ? o.waitValue.address : o.writeValue.address);
    std::uint32_t const value = waits ? o.waitValue.value : o.writeValue.value;
    if (is_pageable(word)) return CUDA_ERROR_INVALID_VALUE;
    here.enqueue(to, [=, &here, on = &to]() -> job {
      return [=, &here] {
        if (waits) return here.machine().is_word(on->agent, word, value);
        here.machine().set_word(on->agent, word, value);
        return true;
      };
    });
  }
  return CUDA_SUCCESS;
}

// -- Memory that programs map by themselves, and teams.

using runtime_handle = CUmemGenericAllocationHandle;
constexpr std::size_t granularity = 8192;
char const* const team_name = "ptx-team";

runtime_handle add_handle(runtime::handle const& what) {
  runtime& here = runtime::instance();
  here.handles[++here.last_handle] = what;
  return here.last_handle;
}
CUresult get_device(CUdevice* out, int ordinal) {
  *out = ordinal;
  return CUDA_SUCCESS;
}
CUresult get_device_attribute(int* out, CUdevice_attribute which, CUdevice) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED: *out = number_from_environment("PTX_SWITCH", 0) != 0; break;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: *out = 1; break;
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}
CUresult create_memory(runtime_handle* out, std::size_t bytes, CUmemAllocationProp const* how, unsigned long long) {
  auto const held = lock();
  int const file = ::memfd_create("ptx", MFD_CLOEXEC);
  if (bytes % granularity != 0) return CUDA_ERROR_INVALID_VALUE;
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = add_handle({file, bytes, how->location.id});
  return CUDA_SUCCESS;
}
runtime::team* map_team(runtime_handle of, int file) {
  void* const at = ::mmap(nullptr, runtime::team::bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return at == MAP_FAILED ? nullptr : runtime::instance().teams[of] = static_cast<runtime::team*>(at);
}
CUresult create_team(runtime_handle* out, CUmulticastObjectProp const* how) {
  auto const held = lock();
  int const file = ::memfd_create(team_name, MFD_CLOEXEC);
  if (how->size % granularity != 0 || how->numDevices > ptx::machine::gpus_at_most) return CUDA_ERROR_INVALID_VALUE;
  if (file < 0 || ::ftruncate(file, runtime::team::bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = add_handle({file, how->size, 0});
  map_team(*out, file)->size = how->numDevices;
  return CUDA_SUCCESS;
}
CUresult get_granularity_of_team(std::size_t* out, CUmulticastObjectProp const*, CUmulticastGranularity_flags) {
  *out = granularity;
  return CUDA_SUCCESS;
}
CUresult get_granularity_of_memory(std::size_t* out, CUmemAllocationProp const*, CUmemAllocationGranularity_flags) {
  *out = granularity / 2;
  return CUDA_SUCCESS;
}
CUresult add_to_team(runtime_handle team, CUdevice) {
  auto const held = lock();
  runtime::team& of = *runtime::instance().teams.at(team);
  return of.added.fetch_add(1) < of.size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
// CUDA would wait until all members have been added.
bool is_complete(runtime::team const& of) { return of.added == of.size; }
CUresult bind_to_team(runtime_handle team, std::size_t, runtime_handle memory, std::size_t, std::size_t,
                      unsigned long long) {
  auto const held = lock();
  runtime& here = runtime::instance();
  runtime::team& of = *here.teams.at(team);
  runtime::handle const& what = here.handles.at(memory);
  if (!is_complete(of)) return CUDA_ERROR_ILLEGAL_STATE;
  if (what.gpu == 1 && number_from_environment("PTX_SWITCH", 0) == 2) return CUDA_ERROR_SYSTEM_NOT_READY;
  runtime::team::member& mine = of.members[what.gpu];
  if (mine.process != 0) return CUDA_ERROR_INVALID_VALUE;
  mine.file = what.file;
  mine.process = ::getpid();
  return CUDA_SUCCESS;
}
CUresult unbind_from_team(runtime_handle, CUdevice, std::size_t, std::size_t) { return CUDA_SUCCESS; }
CUresult export_handle(void* out, runtime_handle from, CUmemAllocationHandleType, unsigned long long) {
  auto const held = lock();
  runtime& here = runtime::instance();
  runtime::handle const& what = here.handles.at(from);
  if (what.mapped != nullptr) here.machine().memory().share(what.mapped);
  *static_cast<int*>(out) = ::fcntl(what.file, F_DUPFD_CLOEXEC, 0);
  return *static_cast<int*>(out) >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
CUresult import_handle(runtime_handle* out, void* from, CUmemAllocationHandleType) {
  auto const held = lock();
  int const file = ::fcntl(static_cast<int>(reinterpret_cast<std::uintptr_t>(from)), F_DUPFD_CLOEXEC, 0);
  struct stat about{};
  if (file < 0 || ::fstat(file, &about) != 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *out = add_handle({file, static_cast<std::size_t>(about.st_size), current_gpu, true});
  char name[64]{};
  std::string const link = "/proc/self/fd/" + std::to_string(file);
  if (::readlink(link.c_str(), name, sizeof name - 1) > 0 &&
      std::string_view(name).find(team_name) != std::string::npos)
    map_team(*out, file);
  return CUDA_SUCCESS;
}
CUresult release_handle(runtime_handle handle) {
  auto const held = lock();
  runtime& here = runtime::instance();
  if (auto const team = here.teams.find(handle); team != here.teams.end()) {
    ::munmap(team->second, runtime::team::bytes);
    here.teams.erase(team);
  }
  ::close(here.handles.at(handle).file);
  here.handles.erase(handle);
  return CUDA_SUCCESS;
}
CUresult reserve_addresses(CUdeviceptr* out, std::size_t bytes, std::size_t, CUdeviceptr, unsigned long long) {
  void* const at = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *out = reinterpret_cast<CUdeviceptr>(at);
  return at != MAP_FAILED ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult free_addresses(CUdeviceptr at, std::size_t bytes) {
  ::munmap(reinterpret_cast<void*>(at), bytes);
  return CUDA_SUCCESS;
}
// Where this process sees memory of a member.
std::byte* find_member(runtime::team::member const& of, std::size_t bytes, CUdeviceptr team) {
  runtime& here = runtime::instance();
  if (of.process == ::getpid()) {
    for (auto const& [number, known] : here.handles)
      if (known.file == of.file) return known.mapped;
    return nullptr;
  }
  std::string const path = "/proc/" + std::to_string(of.process) + "/fd/" + std::to_string(of.file);
  int const file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (at == MAP_FAILED) return nullptr;
  here.machine().memory().add(at, bytes, {.cached = true, .written = true, .foreign = true});
  here.opened_members[team].push_back(at);
  return static_cast<std::byte*>(at);
}
CUresult map_memory(CUdeviceptr at, std::size_t bytes, std::size_t, runtime_handle handle, unsigned long long) {
  auto const held = lock();
  runtime& here = runtime::instance();
  auto* const begin = reinterpret_cast<std::byte*>(at);
  if (auto const team = here.teams.find(handle); team != here.teams.end()) {
    if (!is_complete(*team->second)) return CUDA_ERROR_ILLEGAL_STATE;
    std::vector<std::uint64_t> members;
    for (runtime::team::member const& m : team->second->members) {
      if (m.process == 0) continue;
      std::byte* const found = find_member(m, bytes, at);
      if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
      members.push_back(reinterpret_cast<std::uint64_t>(found));
    }
    // Programs may bind memory later, but the machine wants it now.
    if (members.size() != team->second->size) return CUDA_ERROR_ILLEGAL_STATE;
    here.machine().memory().add_team(begin, bytes, std::move(members));
    return CUDA_SUCCESS;
  }
  runtime::handle& what = here.handles.at(handle);
  if (::mmap(begin, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, what.file, 0) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  what.mapped = begin;
  here.machine().memory().add(begin, bytes, {.cached = true, .written = what.imported, .foreign = what.imported});
  here.allocations[begin] = {what.file, bytes, what.gpu};
  return CUDA_SUCCESS;
}
CUresult unmap_memory(CUdeviceptr at, std::size_t bytes) {
  auto const held = lock();
  runtime& here = runtime::instance();
  auto* const begin = reinterpret_cast<void*>(at);
  here.machine().memory().remove(begin);
  here.allocations.erase(begin);
  if (auto const members = here.opened_members.extract(at); !members.empty())
    for (void* const m : members.mapped()) {
      here.machine().memory().remove(m);
      ::munmap(m, bytes);
    }
  ::mmap(begin, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return CUDA_SUCCESS;
}
CUresult set_access(CUdeviceptr, std::size_t, CUmemAccessDesc const*, std::size_t) { return CUDA_SUCCESS; }

}  // namespace

extern "C" {

// -- What nvcc's host code calls to register kernels.

void** __cudaRegisterFatBinary(void* wrapper) {
  struct wrapped {
    int magic, version;
    char const* data;
    void* name;
  };
  auto const held = lock();
  runtime& here = runtime::instance();
  char const* const data = static_cast<wrapped*>(wrapper)->data;
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, data + 8, sizeof bytes);
  std::string_view text(data, static_cast<std::size_t>(bytes) + 16);
  std::size_t const begin = text.find(".version ");  // it is not compressed
  text.remove_prefix(std::min(begin, text.size()));
  here.register_binary(text.substr(0, text.find('\0')));
  return reinterpret_cast<void**>(here.binaries.back().get());
}
void __cudaRegisterFatBinaryEnd(void**) {}
// Called for each binary when the program ends.
void __cudaUnregisterFatBinary(void**) {
  append_coverage();
  if (has_freed_all()) return;
  std::fflush(nullptr);
  ::syscall(SYS_exit_group, EXIT_FAILURE);
}
// Ranks that are child processes end like this, without handlers of exit.
[[gnu::noreturn]] void _exit(int code) {
  append_coverage();
  if (code == 0 && !has_freed_all()) code = EXIT_FAILURE;
  ::syscall(SYS_exit_group, code);
  __builtin_unreachable();
}
char __cudaInitModule(void**) { return 0; }
void __cudaRegisterFunction(void** binary, char const* host, char*, char const* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  auto const held = lock();
  runtime::instance().functions[host] = {reinterpret_cast<runtime::binary*>(binary), name};
}
void __cudaRegisterVar(void**, char*, char*, char const*, int, std::size_t, int, int) {}
// Around kernel<<<blocks, threads, shared, stream>>>(...).
unsigned __cudaPushCallConfiguration(dim3 blocks, dim3 threads, std::size_t shared, CUstream_st* stream) {
  configurations.push_back({blocks, threads, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* blocks, dim3* threads, std::size_t* shared, void* stream) {
  if (configurations.empty()) return note(cudaErrorInvalidConfiguration);
  configuration const c = configurations.back();
  configurations.pop_back();
  *blocks = c.blocks, *threads = c.threads, *shared = c.shared, *static_cast<CUstream_st**>(stream) = c.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* out, void const* function) {
  *out = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t function, dim3 blocks, dim3 threads, void** arguments, std::size_t,
                               cudaStream_t stream) {
  return launch(reinterpret_cast<void const*>(function), blocks, threads, arguments, stream, false);
}

// -- Errors.

cudaError_t cudaGetLastError() {
  cudaError_t const last = std::exchange(last_error, cudaSuccess);
  return last != cudaSuccess ? last : runtime::instance().sticky();
}
cudaError_t cudaPeekAtLastError() {
  cudaError_t const sticky = runtime::instance().sticky();
  return sticky != cudaSuccess ? sticky : last_error;
}
char const* cudaGetErrorName(cudaError_t code) {
  switch (code) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorMisalignedAddress: return "cudaErrorMisalignedAddress";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorIllegalInstruction: return "cudaErrorIllegalInstruction";
    case cudaErrorLaunchTimeout: return "cudaErrorLaunchTimeout";
    case cudaErrorInvalidPtx: return "cudaErrorInvalidPtx";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    default: return "another error of CUDA";
  }
}
char const* cudaGetErrorString(cudaError_t code) { return cudaGetErrorName(code); }

// -- Devices.

cudaError_t cudaGetDeviceCount(int* out) {
  *out = runtime::instance().gpus();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int gpu) {
  if (gpu < 0 || gpu >= runtime::instance().gpus()) return note(cudaErrorInvalidDevice);
  current_gpu = gpu;
  has_context = true;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* out) {
  *out = current_gpu;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* out, cudaDeviceAttr which, int) {
  switch (which) {
    case cudaDevAttrMultiProcessorCount:
      *out = runtime::instance().machine().size().multiprocessors;
      return cudaSuccess;
    case cudaDevAttrCooperativeLaunch: *out = 1; return cudaSuccess;
    case cudaDevAttrPageableMemoryAccess: *out = 0; return cudaSuccess;
    case cudaDevAttrL2CacheSize: *out = 16 << 10; return cudaSuccess;  // some arrays of the tests exceed it
    default: return note(cudaErrorNotSupported);
  }
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int gpu) {
  std::memset(out, 0, sizeof *out);
  std::snprintf(out->name, sizeof out->name, "PTX machine");
  std::memset(&out->uuid, 0x50 + gpu, sizeof out->uuid);
  out->multiProcessorCount = runtime::instance().machine().size().multiprocessors;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* out, int, int) {
  *out = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return note(runtime::instance().wait_for_gpu(current_gpu)); }
// Refuses a second question about a kernel, GPU and number of threads: a process that asks again wastes time at each launch.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* out, void const* kernel, int threads, std::size_t) {
  static std::set<std::tuple<void const*, int, int>> asked;
  auto const held = lock();
  if (!asked.emplace(kernel, current_gpu, threads).second) return note(cudaErrorNotPermitted);
  *out = runtime::instance().machine().size().blocks_each;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, void const* kernel, int threads,
                                                                   std::size_t dynamic, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(out, kernel, threads, dynamic);
}
cudaError_t cudaGetDriverEntryPointByVersion(char const* symbol, void** out, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  static std::map<std::string_view, void*> const known{
      {"cuGetErrorName", reinterpret_cast<void*>(&get_error_name)},
      {"cuStreamBatchMemOp", reinterpret_cast<void*>(&batch_memory_operations)},
      {"cuCtxGetCurrent", reinterpret_cast<void*>(&get_current_context)},
      {"cuCtxGetDevice", reinterpret_cast<void*>(&get_current_device)},
      {"cuCtxSetCurrent", reinterpret_cast<void*>(&set_current_context)},
      {"cuMemGetAddressRange", reinterpret_cast<void*>(&get_address_range)},
      {"cuPointerGetAttribute", reinterpret_cast<void*>(&get_pointer_attribute)},
      {"cuDeviceGet", reinterpret_cast<void*>(&get_device)},
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(&get_device_attribute)},
      {"cuMemCreate", reinterpret_cast<void*>(&create_memory)},
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&get_granularity_of_memory)},
      {"cuMemRelease", reinterpret_cast<void*>(&release_handle)},
      {"cuMemAddressReserve", reinterpret_cast<void*>(&reserve_addresses)},
      {"cuMemAddressFree", reinterpret_cast<void*>(&free_addresses)},
      {"cuMemMap", reinterpret_cast<void*>(&map_memory)},
      {"cuMemUnmap", reinterpret_cast<void*>(&unmap_memory)},
      {"cuMemSetAccess", reinterpret_cast<void*>(&set_access)},
      {"cuMemExportToShareableHandle", reinterpret_cast<void*>(&export_handle)},
      {"cuMemImportFromShareableHandle", reinterpret_cast<void*>(&import_handle)},
      {"cuMulticastCreate", reinterpret_cast<void*>(&create_team)},
      {"cuMulticastGetGranularity", reinterpret_cast<void*>(&get_granularity_of_team)},
      {"cuMulticastAddDevice", reinterpret_cast<void*>(&add_to_team)},
      {"cuMulticastBindMem", reinterpret_cast<void*>(&bind_to_team)},
      {"cuMulticastUnbind", reinterpret_cast<void*>(&unbind_from_team)}};
  auto const at = known.find(symbol);
  *out = at != known.end() ? at->second : nullptr;
  if (found != nullptr) *found = *out != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

// -- Memory.

cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  auto const held = lock();
  if (spoils_capture()) return note(cudaErrorStreamCaptureUnsupported);
  has_context = true;
  std::size_t const all = (bytes + 4095) / 4096 * 4096;
  int const file = ::memfd_create("ptx", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(all)) != 0) return note(cudaErrorMemoryAllocation);
  *out = ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (*out == MAP_FAILED) return note(cudaErrorMemoryAllocation);
  runtime::instance().allocations[*out] = {file, all, current_gpu};
  runtime::instance().machine().memory().add(*out, bytes, {.cached = true});
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  if (auto const held = lock(); spoils_capture()) return note(cudaErrorStreamCaptureUnsupported);
  cudaError_t const code = runtime::instance().wait_for_all();
  auto const held = lock();
  auto const found = runtime::instance().allocations.find(memory);
  if (found == runtime::instance().allocations.end()) return note(cudaErrorInvalidValue);
  runtime::instance().machine().memory().remove(memory);
  ::munmap(memory, found->second.bytes);
  ::close(found->second.file);
  runtime::instance().allocations.erase(found);
  return note(code);
}
cudaError_t cudaMallocAsync(void** out, std::size_t bytes, cudaStream_t) {
  cudaError_t const code = cudaMalloc(out, bytes);
  auto const held = lock();
  if (code == cudaSuccess) runtime::instance().allocations[*out].pooled = true;
  return code;
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t) { return cudaFree(memory); }
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, void const* memory) {
  auto const held = lock();
  *out = {};
  if (auto const* const found = runtime::instance().allocation_of(memory)) {
    out->type = cudaMemoryTypeDevice;
    out->device = found->gpu;
  } else {
    out->type = is_pageable(memory) ? cudaMemoryTypeUnregistered : cudaMemoryTypeHost;
  }
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{1} << 32;
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned) {
  auto const held = lock();
  if (spoils_capture()) return note(cudaErrorStreamCaptureUnsupported);
  *out = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (*out == nullptr) return note(cudaErrorMemoryAllocation);
  expose(*out, bytes);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** out, std::size_t bytes) { return cudaHostAlloc(out, bytes, 0); }
cudaError_t cudaFreeHost(void* memory) {
  if (auto const held = lock(); spoils_capture()) return note(cudaErrorStreamCaptureUnsupported);
  cudaError_t const code = runtime::instance().wait_for_all();
  auto const held = lock();
  hide(memory);
  std::free(memory);
  return note(code);
}
cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned) {
  auto const held = lock();
  if (spoils_capture()) return note(cudaErrorStreamCaptureUnsupported);
  expose(memory, bytes);
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* memory) {
  auto const held = lock();
  if (spoils_capture()) return note(cudaErrorStreamCaptureUnsupported);
  hide(memory);
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void** out, void* memory, unsigned) {
  *out = memory;
  return cudaSuccess;
}
// As CUDA does: pageable memory is read before the call returns, and written before it returns.
cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  runtime& here = runtime::instance();
  bool waits = false;
  CUstream_st* on = nullptr;
  {
    auto const held = lock();
    on = here.stream_of(stream, current_gpu);
    waits = is_pageable(to);
    std::shared_ptr<std::vector<std::byte>> staged;
    if (is_pageable(from) && bytes > 0) {
      auto const* const first = static_cast<std::byte const*>(from);
      staged = std::make_shared<std::vector<std::byte>>(first, first + bytes);
    }
    here.enqueue(*on, [=, &here]() -> job {
      return [=, &here] {
        if (bytes > 0) std::memmove(to, staged != nullptr ? staged->data() : from, bytes);
        here.machine().note_access(on->agent, from, staged != nullptr ? 0 : bytes, false);
        here.machine().note_access(on->agent, to, bytes, true);
        here.machine().memory().note_written(to, bytes);
        return true;
      };
    });
  }
  return waits ? note(here.run_until([&] { return here.has_ended(*on); })) : cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  auto const held = lock();
  runtime& here = runtime::instance();
  CUstream_st* const on = here.stream_of(stream, current_gpu);
  here.enqueue(*on, [=, &here]() -> job {
    return [=, &here] {
      std::memset(to, value, bytes);
      here.machine().note_access(on->agent, to, bytes, true);
      here.machine().memory().note_written(to, bytes);
      return true;
    };
  });
  return cudaSuccess;
}

struct ipc_handle {
  pid_t process;
  int file;
  std::size_t bytes;
};
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* out, void* memory) {
  auto const held = lock();
  auto const found = runtime::instance().allocations.find(memory);
  if (found == runtime::instance().allocations.end()) return note(cudaErrorInvalidValue);
  runtime::instance().machine().memory().share(memory);
  ipc_handle const handle{::getpid(), found->second.file, found->second.bytes};
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &handle, sizeof handle);
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void** out, cudaIpcMemHandle_t token, unsigned) {
  auto const held = lock();
  if (spoils_capture()) return note(cudaErrorStreamCaptureUnsupported);
  ipc_handle handle;
  std::memcpy(&handle, &token, sizeof handle);
  std::string const path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
  int const file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return note(cudaErrorMapBufferObjectFailed);
  *out = ::mmap(nullptr, handle.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (*out == MAP_FAILED) return note(cudaErrorMapBufferObjectFailed);
  runtime::instance().opened[*out] = handle.bytes;
  runtime::instance().machine().memory().add(*out, handle.bytes, {.cached = true, .written = true, .foreign = true});
  return cudaSuccess;
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
  if (auto const held = lock(); spoils_capture()) return note(cudaErrorStreamCaptureUnsupported);
  cudaError_t const code = runtime::instance().wait_for_all();
  auto const held = lock();
  auto const found = runtime::instance().opened.find(memory);
  if (found == runtime::instance().opened.end()) return note(cudaErrorInvalidValue);
  runtime::instance().machine().memory().remove(memory);
  ::munmap(memory, found->second);
  runtime::instance().opened.erase(found);
  return note(code);
}

// -- Kernels.

cudaError_t cudaLaunchKernel(void const* function, dim3 blocks, dim3 threads, void** arguments, std::size_t,
                             cudaStream_t stream) {
  return launch(function, blocks, threads, arguments, stream, false);
}
cudaError_t cudaLaunchCooperativeKernel(void const* function, dim3 blocks, dim3 threads, void** arguments, std::size_t,
                                        cudaStream_t stream) {
  return launch(function, blocks, threads, arguments, stream, true);
}

cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const* how, void const* function, void** arguments) {
  return launch(function, how->gridDim, how->blockDim, arguments, how->stream, false);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, void const* function) {
  auto const found = runtime::instance().functions.find(function);
  if (found == runtime::instance().functions.end()) return note(cudaErrorInvalidDeviceFunction);
  *out = {};
  out->maxThreadsPerBlock = 1024;
  std::string_view const text = found->second.of->text, target = ".target sm_";
  out->ptxVersion = out->binaryVersion = std::atoi(text.data() + text.find(target) + target.size());
  return cudaSuccess;
}

// -- Streams.

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  auto const held = lock();
  *out = new CUstream_st;
  (*out)->blocking = flags == cudaStreamDefault;
  (*out)->gpu = current_gpu;
  (*out)->agent = runtime::instance().machine().new_agent(current_gpu);
  runtime::instance().streams().insert(*out);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  runtime& here = runtime::instance();
  cudaError_t const code = here.run_until([&] { return here.has_ended(*stream); });
  auto const held = lock();
  here.streams().erase(stream);
  delete stream;
  return note(code);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  runtime& here = runtime::instance();
  here.advance(200);
  auto const held = lock();
  if (spoils_capture()) return note(cudaErrorStreamCaptureUnsupported);
  if (here.sticky() != cudaSuccess) return note(here.sticky());
  return here.has_ended(*here.stream_of(stream, current_gpu)) ? cudaSuccess : note(cudaErrorNotReady);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  runtime& here = runtime::instance();
  CUstream_st* const on = here.stream_of(stream, current_gpu);
  return note(here.run_until([&] { return here.has_ended(*on); }));
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* out) {
  auto const held = lock();
  if (stream == nullptr)
    for (CUstream_st const* const other : runtime::instance().streams())
      if (other->blocking && other->captured_by != nullptr) return note(cudaErrorStreamCaptureImplicit);
  CUstream_st const& s = *runtime::instance().stream_of(stream, current_gpu);
  *out = s.captured_by == nullptr     ? cudaStreamCaptureStatusNone
         : s.captured_by->invalidated ? cudaStreamCaptureStatusInvalidated
                                      : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  auto const held = lock();
  if (stream == nullptr || stream->captured_by != nullptr) return note(cudaErrorIllegalState);
  stream->captured_by = stream;
  stream->joined = {stream};
  stream->mode = mode;
  stream->invalidated = false;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  auto const held = lock();
  if (stream == nullptr || stream->captured_by != stream) return note(cudaErrorIllegalState);
  *out = stream->invalidated ? nullptr : new CUgraph_st(std::move(stream->capture));
  runtime::instance().graphs += *out != nullptr;
  stream->capture = {};
  for (CUstream_st* const s : std::exchange(stream->joined, {})) s->captured_by = nullptr;
  return stream->invalidated ? note(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  *out = new CUgraphExec_st{*graph};
  auto const held = lock();
  ++runtime::instance().graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  auto const held = lock();
  for (auto const& [stream, what] : graph->graph.operations) runtime::instance().enqueue(*stream, what);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  auto const held = lock();
  --runtime::instance().graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  auto const held = lock();
  --runtime::instance().graphs;
  return cudaSuccess;
}

// -- Events.

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned) {
  auto const event = std::make_shared<CUevent_st>();
  auto const held = lock();
  ++runtime::instance().events;
  *out = event.get();
  event->self = event;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, 0); }
// Does not wait: kernels that run may need work that this thread has yet to launch.
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  auto const held = lock();
  std::shared_ptr<CUevent_st> const last = std::move(event->self);
  --runtime::instance().events;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  auto const held = lock();
  runtime& here = runtime::instance();
  CUstream_st& on = *here.stream_of(stream, current_gpu);
  event->captured_by = on.captured_by;
  here.enqueue(on, [event = event->self, &on]() -> job {
    return [event, &on, turn = ++event->recorded] {
      event->reached = std::max(event->reached, turn);
      event->before = on.agent.release();
      event->when = std::chrono::steady_clock::now();
      return true;
    };
  });
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  auto const held = lock();
  runtime& here = runtime::instance();
  CUstream_st& on = *here.stream_of(stream, current_gpu);
  if (event->captured_by != nullptr && on.captured_by == nullptr) {
    on.captured_by = event->captured_by;
    event->captured_by->joined.push_back(&on);
  }
  here.enqueue(on, [event = event->self, &on]() -> job {
    return [event, &on, turn = event->recorded] {
      if (event->reached < turn) return false;
      on.agent.learn(event->before);
      return true;
    };
  });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  runtime& here = runtime::instance();
  here.advance(200);
  auto const held = lock();
  if (spoils_capture()) return note(cudaErrorStreamCaptureUnsupported);
  if (here.sticky() != cudaSuccess) return note(here.sticky());
  return here.is_reached(*event) ? cudaSuccess : note(cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  runtime& here = runtime::instance();
  return note(here.run_until([&] { return here.is_reached(*event); }));
}
cudaError_t cudaEventElapsedTime(float* out, cudaEvent_t begin, cudaEvent_t end) {
  *out = std::chrono::duration<float, std::milli>(end->when - begin->when).count();
  return cudaSuccess;
}

}  // extern "C"
