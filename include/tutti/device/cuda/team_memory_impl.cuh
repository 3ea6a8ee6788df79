// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/cuda/team_memory.cuh.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cuda.h>
#include <exception>
#include <memory>
#include <span>
#include <unistd.h>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/cuda/context.cuh"
#include "tutti/device/cuda/driver.cuh"
#include "tutti/device/cuda/team_memory.cuh"

namespace tutti::detail {

// Of functions that CUDA 12.1 knows.
template <class Function, class... Arguments>
void call_driver(char const* name, Arguments... arguments) {
  calls_during_captures const allowed;
  expect_driver(find_driver_function<Function>(name, 12010)(arguments...), name);
}

TUTTI_CUDA_INLINE gpu_mapping::gpu_mapping(int gpu, CUmemGenericAllocationHandle memory, std::size_t bytes,
                                           std::size_t granularity)
    : bytes_{bytes} {
  call_driver<decltype(cuMemAddressReserve)>("cuMemAddressReserve", &at_, bytes, granularity, CUdeviceptr{0}, 0ull);
  try {
    call_driver<decltype(cuMemMap)>("cuMemMap", at_, bytes, std::size_t{0}, memory, 0ull);
    mapped_ = true;
    open_to(gpu);
  } catch (...) {
    close();
    throw;
  }
}

TUTTI_CUDA_INLINE void gpu_mapping::open_to(int gpu) const {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = gpu;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  call_driver<decltype(cuMemSetAccess)>("cuMemSetAccess", at_, bytes_, &access, std::size_t{1});
}

TUTTI_CUDA_INLINE void gpu_mapping::close() noexcept {
  try {
    if (mapped_) call_driver<decltype(cuMemUnmap)>("cuMemUnmap", at_, bytes_);
    if (at_ != 0) call_driver<decltype(cuMemAddressFree)>("cuMemAddressFree", at_, bytes_);
  } catch (std::exception const&) {  // the driver shuts down
  }
}

TUTTI_CUDA_INLINE gpu_memory_handle::~gpu_memory_handle() {
  try {
    if (owns_) call_driver<decltype(cuMemRelease)>("cuMemRelease", handle_);
  } catch (std::exception const&) {
  }
}

TUTTI_CUDA_INLINE descriptor gpu_memory_handle::to_descriptor() const {
  int out = -1;
  call_driver<decltype(cuMemExportToShareableHandle)>("cuMemExportToShareableHandle", static_cast<void*>(&out), handle_,
                                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0ull);
  return descriptor(out);
}

TUTTI_CUDA_INLINE gpu_memory_handle gpu_memory_handle::of(descriptor const& file) {
  CUmemGenericAllocationHandle out = 0;
  call_driver<decltype(cuMemImportFromShareableHandle)>(
      "cuMemImportFromShareableHandle", &out, reinterpret_cast<void*>(static_cast<std::uintptr_t>(file.get())),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  return gpu_memory_handle(out);
}

TUTTI_CUDA_INLINE cuda_team_memory::~cuda_team_memory() {
  close();
  try {
    if (bound_)
      call_driver<decltype(cuMulticastUnbind)>("cuMulticastUnbind", team_->get(), device(), std::size_t{0}, bytes_);
  } catch (std::exception const&) {  // the driver shuts down
  }
}

TUTTI_CUDA_INLINE cuda_team_memory::card cuda_team_memory::begin() {
  current_device const here(gpu_);
  expect_attribute(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, "has no NVLink switch that reaches several GPUs at once");
  expect_attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                   "cannot share memory by file descriptors");
  CUmulticastObjectProp about{};
  about.numDevices = static_cast<unsigned>(ranks_);
  about.size = bytes_;
  about.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  call_driver<decltype(cuMulticastGetGranularity)>("cuMulticastGetGranularity", &granularity_, &about,
                                                   CU_MULTICAST_GRANULARITY_MINIMUM);
  std::size_t of_memory = 0;
  CUmemAllocationProp const memory = kind_of_memory();
  call_driver<decltype(cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity", &of_memory, &memory,
                                                       CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  granularity_ = std::max(granularity_, of_memory);  // powers of two
  about.size = bytes_ = (bytes_ + granularity_ - 1) / granularity_ * granularity_;
  if (rank_ == 0) {
    CUmemGenericAllocationHandle team = 0;
    call_driver<decltype(cuMulticastCreate)>("cuMulticastCreate", &team, &about);
    team_ = std::make_shared<gpu_memory_handle const>(team);
  }
  mail_.emplace();
  return {identity_of_gpu(gpu_), ::getpid(), this, mail_->here()};
}

TUTTI_CUDA_INLINE void cuda_team_memory::join(std::span<card const> all, deadline until) {
  current_device const here(gpu_);
  all_.assign(all.begin(), all.end());
  for (std::size_t b = 0; b < all.size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (all[a].gpu == all[b].gpu)
        throw error({.code = error_code::system,
                     .what = detail::join({"ranks ", a, " and ", b, " share a GPU"}),
                     .way_out = "give every rank a GPU of its own"});
  if (rank_ == 0) {
    std::vector<descriptor_mail::address> const guests = elsewhere();
    if (!guests.empty()) static_cast<void>(mail_->exchange(team_->to_descriptor(), guests, {}, until));
  } else if (all[0].process == ::getpid()) {
    team_ = all[0].self->team_;
  } else {
    team_ = std::make_shared<gpu_memory_handle const>(
        gpu_memory_handle::of(mail_->exchange({}, {}, std::span(&all[0].mail, 1), until)[0]));
  }
  call_driver<decltype(cuMulticastAddDevice)>("cuMulticastAddDevice", team_->get(), device());
}

TUTTI_CUDA_INLINE void cuda_team_memory::bind() {
  current_device const here(gpu_);
  CUmemAllocationProp const about = kind_of_memory();
  CUmemGenericAllocationHandle memory = 0;
  call_driver<decltype(cuMemCreate)>("cuMemCreate", &memory, bytes_, &about, 0ull);
  memory_ = gpu_memory_handle(memory);
  own_ = gpu_mapping(gpu_, memory, bytes_, granularity_);
  call_driver<decltype(cuMulticastBindMem)>("cuMulticastBindMem", team_->get(), std::size_t{0}, memory, std::size_t{0},
                                            bytes_, 0ull);
  bound_ = true;
}

TUTTI_CUDA_INLINE void cuda_team_memory::open(deadline until) {
  current_device const here(gpu_);
  std::vector<descriptor_mail::address> const others = elsewhere();
  std::vector<descriptor> files;
  if (!others.empty()) files = mail_->exchange(memory_.to_descriptor(), others, others, until);
  auto next = files.begin();
  for (card const& q : all_) {
    if (q.process == ::getpid()) {
      q.self->own_.open_to(gpu_);
      at_.push_back(q.self->own_.data());
    } else {
      opened_.emplace_back(gpu_, gpu_memory_handle::of(*next++).get(), bytes_, granularity_);
      at_.push_back(opened_.back().data());
    }
  }
  everywhere_ = gpu_mapping(gpu_, team_->get(), bytes_, granularity_);
}

TUTTI_CUDA_INLINE CUmemAllocationProp cuda_team_memory::kind_of_memory() const {
  CUmemAllocationProp out{};
  out.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  out.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  out.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  out.location.id = gpu_;
  return out;
}

TUTTI_CUDA_INLINE CUdevice cuda_team_memory::device() const {
  CUdevice out = 0;
  call_driver<decltype(cuDeviceGet)>("cuDeviceGet", &out, gpu_);
  return out;
}

TUTTI_CUDA_INLINE void cuda_team_memory::expect_attribute(CUdevice_attribute which, char const* lacks) const {
  int has = 0;
  call_driver<decltype(cuDeviceGetAttribute)>("cuDeviceGetAttribute", &has, which, device());
  if (has == 0)
    throw error({.code = error_code::system, .what = detail::join({"GPU ", gpu_, " ", lacks}), .way_out = ""});
}

TUTTI_CUDA_INLINE std::vector<descriptor_mail::address> cuda_team_memory::elsewhere() const {
  std::vector<descriptor_mail::address> out;
  for (card const& q : all_)
    if (q.process != ::getpid()) out.push_back(q.mail);
  return out;
}

}  // namespace tutti::detail
