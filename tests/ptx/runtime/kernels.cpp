// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The registration, launch and attributes of kernels.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "ptx/runtime/runtime.hpp"

using namespace tutti::testing::cuda;

namespace {

struct configuration {
  dim3 blocks, threads;
  std::size_t shared;
  CUstream_st* stream;
};
thread_local std::vector<configuration> configurations;

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

}  // extern "C"
