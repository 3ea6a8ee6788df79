// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PTX_EXPECT_FREED: a process that does not free what it has made on GPUs fails.
#include <doctest/doctest.h>

#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace {

// The exit code of a process that runs this and ends like a rank.
template <class Body>
int exit_code_of(Body body) {
  pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::setenv("PTX_EXPECT_FREED", "1", 1);
    body();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

alignas(4096) char registered[4096];

}  // namespace

TEST_CASE("a process that frees all succeeds") {
  CHECK(exit_code_of([] {
          void *memory = nullptr, *pinned = nullptr;
          cudaStream_t stream = nullptr;
          cudaEvent_t event = nullptr;
          cudaMalloc(&memory, 100);
          cudaHostAlloc(&pinned, 100, cudaHostAllocDefault);
          cudaHostRegister(registered, sizeof registered, cudaHostRegisterDefault);
          cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
          cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
          cudaGraph_t graph = nullptr;
          cudaGraphExec_t replayed = nullptr;
          cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
          cudaStreamEndCapture(stream, &graph);
          cudaGraphInstantiate(&replayed, graph, 0);
          cudaGraphExecDestroy(replayed);
          cudaGraphDestroy(graph);
          cudaEventDestroy(event);
          cudaStreamDestroy(stream);
          cudaHostUnregister(registered);
          cudaFreeHost(pinned);
          cudaFree(memory);
        }) == 0);
}

TEST_CASE("a process that leaves something behind fails") {
  CHECK(exit_code_of([] {
          void* memory = nullptr;
          cudaMalloc(&memory, 100);
        }) == EXIT_FAILURE);
  CHECK(exit_code_of([] {
          void* memory = nullptr;
          cudaHostAlloc(&memory, 100, cudaHostAllocDefault);
        }) == EXIT_FAILURE);
  CHECK(exit_code_of([] { cudaHostRegister(registered, sizeof registered, cudaHostRegisterDefault); }) == EXIT_FAILURE);
  CHECK(exit_code_of([] {
          cudaStream_t stream = nullptr;
          cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        }) == EXIT_FAILURE);
  CHECK(exit_code_of([] {
          cudaEvent_t event = nullptr;
          cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
        }) == EXIT_FAILURE);
  CHECK(exit_code_of([] {
          cudaStream_t stream = nullptr;
          cudaGraph_t graph = nullptr;
          cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
          cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
          cudaStreamEndCapture(stream, &graph);
          cudaStreamDestroy(stream);
        }) == EXIT_FAILURE);
}
