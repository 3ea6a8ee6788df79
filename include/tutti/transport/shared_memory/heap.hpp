// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Allocates memory from a rank's part of a segment in whole pages, and returns freed pages to the system.
#pragma once

#include <cstddef>
#include <mutex>
#include <new>
#include <vector>

#include "tutti/transport/segment.hpp"

namespace tutti::detail {

struct heap_full : std::bad_alloc {
  char const* what() const noexcept override {
    return "std::bad_alloc: no room is left in the memory that this rank shares with others; set TUTTI_HEAP to more "
           "bytes, or allocate less";
  }
};

// Thread-safe: one thread may make a call while another allocates.
class heap {
 public:
  heap(std::byte* base, std::size_t bytes);

  // First fit; null if no free piece is large enough. Throws std::bad_alloc if the list of pieces cannot grow.
  std::byte* allocate(std::size_t bytes);

  [[gnu::cold]] void deallocate(std::byte* memory, std::size_t bytes) noexcept;

 private:
  // Zeroes memory, and returns what is whole pages of the system, which may be larger than ours.
  [[gnu::cold]] static void clear(std::byte* memory, std::size_t bytes) noexcept;

  struct piece {
    std::size_t offset, size;
    bool free;
  };
  static std::size_t round_up(std::size_t bytes) { return (bytes + page - 1) / page * page + (bytes == 0 ? page : 0); }

  std::byte* base_;
  std::mutex changes_;
  std::vector<piece> all_;  // sorted by offset, without gaps; no two neighbours are free, so deallocate() only erases
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/shared_memory/heap_impl.hpp"
#endif
