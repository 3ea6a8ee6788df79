// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hands out pieces of a rank's part of a segment, page by page, and gives freed pages back to the system.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// Threads may call it at once: one may make a call while another takes memory.
class heap {
 public:
  heap(std::byte* base, std::size_t bytes);

  // First fit; null where no free piece is large enough.
  std::byte* allocate(std::size_t bytes);

  void deallocate(std::byte* memory, std::size_t bytes);

 private:
  struct piece {
    std::size_t offset, size;
  };
  static std::size_t round_up(std::size_t bytes) { return (bytes + page - 1) / page * page + (bytes == 0 ? page : 0); }

  std::byte* base_;
  std::unique_ptr<std::mutex> changes_ = std::make_unique<std::mutex>();
  std::vector<piece> free_;  // by offset
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/shared_memory/heap_impl.hpp"
#endif
