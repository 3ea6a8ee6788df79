// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of the GPUs of a team, which all of them read and write, also all at once by way of the NVLink switch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cuda.h>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tutti/core/wait.hpp"
#include "tutti/transport/system/descriptor_mail.hpp"

#if CUDA_VERSION >= 12010

namespace tutti::detail {

// A range of addresses at which a GPU of this process sees memory that a handle names.
class gpu_mapping {
 public:
  gpu_mapping() = default;
  gpu_mapping(int gpu, CUmemGenericAllocationHandle memory, std::size_t bytes, std::size_t granularity);
  gpu_mapping(gpu_mapping&& other) noexcept
      : at_{std::exchange(other.at_, 0)}, bytes_{other.bytes_}, mapped_{std::exchange(other.mapped_, false)} {}
  gpu_mapping& operator=(gpu_mapping other) noexcept {
    std::swap(at_, other.at_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }
  ~gpu_mapping() { close(); }

  std::byte* data() const { return reinterpret_cast<std::byte*>(at_); }
  void open_to(int gpu) const;

 private:
  void close() noexcept;

  CUdeviceptr at_ = 0;
  std::size_t bytes_ = 0;
  bool mapped_ = false;
};

// A handle of memory, or of a team.
class gpu_memory_handle {
 public:
  gpu_memory_handle() = default;
  explicit gpu_memory_handle(CUmemGenericAllocationHandle owned) : handle_{owned}, owns_{true} {}
  gpu_memory_handle(gpu_memory_handle&& other) noexcept
      : handle_{other.handle_}, owns_{std::exchange(other.owns_, false)} {}
  gpu_memory_handle& operator=(gpu_memory_handle other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(owns_, other.owns_);
    return *this;
  }
  ~gpu_memory_handle();

  CUmemGenericAllocationHandle get() const { return handle_; }
  descriptor to_descriptor() const;
  static gpu_memory_handle of(descriptor const& file);

 private:
  CUmemGenericAllocationHandle handle_ = 0;
  bool owns_ = false;
};

// One member's part. The members call begin, join, bind and open in this order, each once all have finished the one before; CUDA
// may otherwise wait for a member that never comes. Each throws error: system, timeout. All have closed before any is destroyed, which
// frees its memory.
class cuda_team_memory {
 public:
  // What the others need.
  struct card {
    std::array<std::byte, 16> gpu{};
    std::int64_t process = 0;
    cuda_team_memory* self = nullptr;  // in its process
    descriptor_mail::address mail{};
  };

  cuda_team_memory(int gpu, int rank, int ranks, std::size_t bytes)
      : gpu_{gpu}, rank_{rank}, ranks_{ranks}, bytes_{bytes} {}
  cuda_team_memory(cuda_team_memory const&) = delete;
  cuda_team_memory& operator=(cuda_team_memory const&) = delete;
  ~cuda_team_memory();

  card begin();
  void join(std::span<card const> all, deadline until);
  void bind();
  void open(deadline until);
  // Forgets the memory of the others.
  void close() noexcept {
    everywhere_ = {};
    opened_.clear();
  }

  // Of each member, as this GPU addresses it.
  std::vector<std::byte*> const& at() const { return at_; }
  // The address of all of them at once, for the instructions multimem.* only.
  std::byte* everywhere() const { return everywhere_.data(); }

 private:
  CUmemAllocationProp kind_of_memory() const;
  CUdevice device() const;
  void expect_attribute(CUdevice_attribute which, char const* lacks) const;
  std::vector<descriptor_mail::address> elsewhere() const;

  int gpu_, rank_, ranks_;
  std::size_t bytes_, granularity_ = 0;
  std::optional<descriptor_mail> mail_;
  std::vector<card> all_;                          // by rank
  std::shared_ptr<gpu_memory_handle const> team_;  // of rank 0 in its process
  gpu_memory_handle memory_;
  gpu_mapping own_, everywhere_;
  std::vector<gpu_mapping> opened_;
  std::vector<std::byte*> at_;
  bool bound_ = false;
};

}  // namespace tutti::detail

#if !defined(TUTTI_CUDA_COMPILED)
#include "tutti/device/cuda/team_memory_impl.cuh"
#endif

#endif
