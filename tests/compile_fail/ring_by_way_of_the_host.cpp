// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// By way of the host a device combines what all ranks have sent, so algorithms that pass it on are refused.
// expect: cuda_staged has only one_shot, and two_shot for all_reduce and reduce
#include <cstddef>

#include "tutti/device/staged/cuda_staged.hpp"
#include "tutti/tutti.hpp"

struct gpu {
  using stream_type = int;
  using event_type = int;
  void* allocate(std::size_t) const;
  void release(void*) const noexcept;
  void* allocate_pinned(std::size_t) const;
  void release_pinned(void*) const noexcept;
  void copy(int, void*, void const*, std::size_t) const;
  template <class Work>
  void launch(int, std::size_t, Work const&) const;
  void wait(int, tutti::detail::deadline) const;
  int make_stream() const;
  void end_stream(int) const noexcept;
  int make_event() const;
  void drop(int) const noexcept;
  void record(int, int) const;
  void follow(int, int) const;
  bool reached(int) const;
  bool capturing(int) const;
};

void call(tutti::cuda_staged<gpu, tutti::loopback>& ranks, tutti::detail::device_array<gpu, float>& data) {
#ifdef TUTTI_CONTROL
  tutti::all_reduce<tutti::two_shot>(ranks, data);
#else
  tutti::all_reduce<tutti::ring>(ranks, data);
#endif
}
