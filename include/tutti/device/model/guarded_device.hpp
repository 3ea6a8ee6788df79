// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device whose launches do nothing once a fault word is set, and which counts them where the host can see.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/core/config.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/flags.hpp"

namespace tutti::detail {

template <class Work>
struct beating {
  Work work;
  std::uint32_t* count;   // launches so far, in device memory
  std::uint32_t* beat;    // the same, in host memory
  std::uint32_t* raised;  // in device memory: the rank has given up

  // Later calls of this rank must not take part.
  TUTTI_HOST_DEVICE void skipped() const { store_host_word(*raised, 1); }
  template <class Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group) const {
    if (group.rank() == 0) store_host_word(*beat, ++*count);
    work(group);
  }
};

struct word_copy {
  std::uint32_t const* from;
  std::uint32_t* to;

  template <class Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group) const {
    if (group.rank() == 0) store_host_word(*to, load_host_word(*from));
  }
};

template <sharing_device D>
struct guarded_device {
  using stream_type = typename D::stream_type;

  D const* on;
  std::uint32_t const* unless;  // in host memory
  std::uint32_t* copy_of_it;    // in device memory
  std::uint32_t* count;
  std::uint32_t* beat;

  void* allocate(std::size_t bytes) const { return on->allocate(bytes); }
  void release(void* memory) const noexcept { on->release(memory); }
  void copy(stream_type stream, void* to, void const* from, std::size_t bytes) const {
    on->copy(stream, to, from, bytes);
  }
  void wait(stream_type stream, deadline until) const { on->wait(stream, until); }

  template <class Work>
  void launch(stream_type stream, std::size_t items, Work const& work) const {
    on->launch_unless(stream, word_for(stream, items), items, beating<Work>{work, count, beat, copy_of_it});
  }
  // The word that a launch of so many items reads. A device reads host memory for one block after the other, a microsecond each, so
  // blocks that are many read a copy, which is made first.
  std::uint32_t const* word_for(stream_type stream, std::size_t items) const {
    constexpr std::size_t few = 1024;
    if (items <= few) return unless;
    on->launch(stream, 1, word_copy{unless, copy_of_it});
    return copy_of_it;
  }
};

}  // namespace tutti::detail
