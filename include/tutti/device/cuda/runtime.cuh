// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A GPU through the CUDA runtime; every call is checked. No launch waits for the device. `wait` does, until a deadline;
// CUDA itself does when memory is freed, or copied to or from pageable host memory. A program built with this header
// runs on machines without a GPU or driver, as long as it creates no cuda_device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tutti/core/wait.hpp"
#include "tutti/device/cuda/context.cuh"
#include "tutti/device/cuda/kernels.cuh"
#include "tutti/device/cuda/sharing.cuh"
#include "tutti/device/cuda/team_memory.cuh"
#include "tutti/device/cuda/together.cuh"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/staging_device.hpp"

namespace tutti {

// One GPU. A model of `device`. Streams are those of the program, or null for the default stream.
class cuda_device {
 public:
  using stream_type = cudaStream_t;
  static constexpr bool streams_share_queues = true;  // eight by default: CUDA_DEVICE_MAX_CONNECTIONS

  // Throws error: bad_argument, if there is no such GPU; system, if CUDA cannot be used.
  explicit cuda_device(int index = 0);

  int index() const { return index_; }
  bool same_as(cuda_device const& other) const { return index_ == other.index_; }
  void* lend(stream_type stream) const { return stream; }  // to other libraries
  auto while_current(auto const& f) const {
    detail::current_device const here(index_);
    return f();
  }

  void* allocate(std::size_t bytes) const;
  void release(void* memory) const noexcept;

  void copy(stream_type stream, void* to, void const* from, std::size_t bytes) const;

  template <class Work>
  void launch(stream_type stream, std::size_t items, Work const& work) const {
    void* arguments[] = {const_cast<Work*>(&work)};
    std::size_t threads = items, most = some_blocks();
    // Arrays that do not fit the cache are fastest with a thread for all that it handles at once: multiprocessors that are faster
    // than others then take more blocks. Measured on an H100.
    if constexpr (detail::tiled_work<Work>)
      if (items * 16 > cache_bytes()) threads = items / Work::turns, most = most_blocks;
    launch_kernel(stream, threads, most, reinterpret_cast<void const*>(&detail::run_work<Work>), arguments);
  }

  int multiprocessors() const { return processors_; }
  std::size_t cache_bytes() const { return static_cast<std::size_t>(cache_bytes_); }
  template <class Work>
  int blocks_at_once() const {
    detail::current_device const here(index_);
    return detail::blocks_of_gpu_at_once(index_, processors_, together<Work>(), detail::block_threads);
  }
  template <class Work>
  void launch_together(stream_type stream, int blocks, Work const& work) const {
    void* arguments[] = {const_cast<Work*>(&work)};
    launch_kernel_together(stream, blocks, together<Work>(), arguments);
  }

  // Throws error: system, also for a fault of a kernel on any stream; timeout.
  void wait(stream_type stream, detail::deadline until) const;

  // -- Streams that do not wait for the default stream, and pinned host memory.
  stream_type make_stream() const;
  void end_stream(stream_type stream) const noexcept;
  void* allocate_pinned(std::size_t bytes) const;
  void release_pinned(void* memory) const noexcept;

  // -- Memory of the program.
  std::optional<detail::memory_objection> objection_to(void const* memory,
                                                       std::span<cuda_device const* const> users) const;

  // -- Other GPUs of this process.
  void reach(cuda_device const& other) const;

  // -- Events.
  using event_type = cudaEvent_t;

  event_type make_event() const;
  void drop(event_type event) const noexcept;
  void record(event_type event, stream_type stream) const;
  void follow(stream_type stream, event_type event) const;
  bool reached(event_type event) const;
  bool capturing(stream_type stream) const;

  // -- Memory that processes share, and streams that wait for words.
  detail::device_memory_handle share(void* memory) const { return detail::share_memory_of_gpu(index_, memory); }
  void* open(detail::device_memory_handle const& handle) const { return detail::open_memory_of_gpu(index_, handle); }
  void close(detail::device_memory_handle const& handle, void* memory) const noexcept;
  void* expose(void* memory, std::size_t bytes) const;
  void hide(void* memory) const noexcept;

#if CUDA_VERSION >= 12010
  // -- Memory that the NVLink switch combines.
  auto make_team_memory(int rank, int ranks, std::size_t bytes) const {
    return std::make_shared<detail::cuda_team_memory>(index_, rank, ranks, bytes);
  }
  // Its instructions exist since compute capability 9.0, also in PTX that the driver compiles.
  template <class Work>
  bool compiled_for_teams() const {
    return ptx_version(together<Work>()) >= 90;
  }
#endif

  void signal(stream_type stream, std::span<detail::stream_signal const> signals) const;
  template <class Work>
  void launch_unless(stream_type stream, std::uint32_t const* unless, std::size_t items, Work const& work) const {
    void* arguments[] = {const_cast<Work*>(&work), &unless};
    launch_kernel(stream, items, some_blocks(), reinterpret_cast<void const*>(&detail::run_work_unless<Work>),
                  arguments);
  }
  std::string text() const;

 private:
  // Calls a function whose failure cannot be handled, and does not leave the error to the program's cudaGetLastError.
  template <class Call>
  void quietly(Call const& call) const noexcept;
  int ptx_version(void const* kernel) const;

  // A thread for each item, in at most so many blocks.
  static constexpr std::size_t most_blocks = std::size_t{1} << 22;
  std::size_t some_blocks() const { return static_cast<std::size_t>(processors_) * detail::min_blocks; }
  void launch_kernel(stream_type stream, std::size_t items, std::size_t most, void const* kernel,
                     void** arguments) const;

  template <class Work>
  static void const* together() {
    return reinterpret_cast<void const*>(&detail::run_together<Work>);
  }
  void launch_kernel_together(stream_type stream, int blocks, void const* kernel, void** arguments) const;
  [[gnu::cold, noreturn]] void refuse_blocks(int blocks, int most) const;

  int index_;
  int processors_ = 0, cache_bytes_ = 0;
};
static_assert(detail::cooperative_device<cuda_device> && detail::linked_device<cuda_device> &&
              detail::sharing_device<cuda_device> && detail::staging_device<cuda_device> &&
              detail::lending_device<cuda_device>);
#if CUDA_VERSION >= 12010
static_assert(detail::teaming_device<cuda_device>);
#endif

}  // namespace tutti

#if !defined(TUTTI_CUDA_COMPILED)
#include "tutti/device/cuda/runtime_impl.cuh"
#endif
