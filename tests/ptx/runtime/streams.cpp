// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams, graphs and events.
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "ptx/runtime/runtime.hpp"

using namespace tutti::testing::cuda;

extern "C" {

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
