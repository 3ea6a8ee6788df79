// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a program finds by name, because it is not linked with the driver.
#include <string_view>

#include "ptx/runtime/runtime.hpp"

using namespace tutti::testing::cuda;

namespace {

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

driver_functions all_functions() {
  driver_functions out{{"cuGetErrorName", reinterpret_cast<void*>(&get_error_name)},
                       {"cuStreamBatchMemOp", reinterpret_cast<void*>(&batch_memory_operations)},
                       {"cuCtxGetCurrent", reinterpret_cast<void*>(&get_current_context)},
                       {"cuCtxGetDevice", reinterpret_cast<void*>(&get_current_device)},
                       {"cuCtxSetCurrent", reinterpret_cast<void*>(&set_current_context)},
                       {"cuMemGetAddressRange", reinterpret_cast<void*>(&get_address_range)},
                       {"cuPointerGetAttribute", reinterpret_cast<void*>(&get_pointer_attribute)},
                       {"cuDeviceGet", reinterpret_cast<void*>(&get_device)},
                       {"cuDeviceGetAttribute", reinterpret_cast<void*>(&get_device_attribute)}};
  out.merge(functions_of_mapped_memory());
  return out;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(char const* symbol, void** out, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  static driver_functions const known = all_functions();
  auto const at = known.find(symbol);
  *out = at != known.end() ? at->second : nullptr;
  if (found != nullptr) *found = *out != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // extern "C"
