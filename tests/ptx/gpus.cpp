// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GPUs of one process, with which threads stand for ranks: what waits for one of them does not wait for the others.
#include <doctest/doctest.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <thread>

namespace {

struct words {
  alignas(4096) std::array<std::uint32_t, 1024> of{};
};

void wait_on_stream(cudaStream_t stream, std::uint32_t* word, std::uint32_t value) {
  void* call = nullptr;
  cudaDriverEntryPointQueryResult found{};
  REQUIRE(cudaGetDriverEntryPointByVersion("cuStreamBatchMemOp", &call, 12000, 0, &found) == cudaSuccess);
  CUstreamBatchMemOpParams one{};
  one.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  one.waitValue.address = reinterpret_cast<CUdeviceptr>(word);
  one.waitValue.value = value;
  one.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  using batch = CUresult(CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned);
  REQUIRE(reinterpret_cast<batch*>(call)(stream, 1, &one, 0) == CUDA_SUCCESS);
}

}  // namespace

TEST_CASE("a GPU is synchronised while a stream of another waits") {
  using namespace std::chrono_literals;
  static words memory;
  std::uint32_t& word = memory.of[0];
  REQUIRE(cudaHostRegister(&memory, sizeof memory, cudaHostRegisterPortable) == cudaSuccess);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  wait_on_stream(stream, &word, 1);
  std::thread opens([&] {
    std::this_thread::sleep_for(500ms);
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
  });
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(__atomic_load_n(&word, __ATOMIC_ACQUIRE) == 0);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(__atomic_load_n(&word, __ATOMIC_ACQUIRE) == 1);
  opens.join();
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cudaHostUnregister(&memory) == cudaSuccess);
}
