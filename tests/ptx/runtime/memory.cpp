// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of GPUs, pinned memory, copies, and memory of other processes.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ptx/runtime/runtime.hpp"

using namespace tutti::testing::cuda;

namespace {

void expose(void* memory, std::size_t bytes) {
  runtime::instance().pinned.insert(memory);
  runtime::instance().machine().memory().add(memory, bytes, {.written = true, .foreign = true});
}
void hide(void* memory) {
  runtime::instance().machine().memory().remove(memory);
  runtime::instance().pinned.erase(memory);
}

struct ipc_handle {
  pid_t process;
  int file;
  std::size_t bytes;
};

}  // namespace

extern "C" {

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

}  // extern "C"
