// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/shared_memory/heap.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "tutti/transport/shared_memory/heap.hpp"

namespace tutti::detail {

TUTTI_INLINE heap::heap(std::byte* base, std::size_t bytes) : base_(base) {
  if (bytes > 0) free_.push_back({0, bytes});
}

TUTTI_INLINE std::byte* heap::allocate(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(-1) - page) return nullptr;
  std::size_t const wanted = round_up(bytes);
  std::lock_guard const lock(changes_);
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    if (at->size < wanted) continue;
    std::size_t const offset = at->offset;
    if (at->size == wanted) free_.erase(at);
    else *at = {offset + wanted, at->size - wanted};
    return base_ + offset;
  }
  return nullptr;
}

TUTTI_INLINE void heap::clear(std::byte* memory, std::size_t bytes) noexcept {
  auto const begin = reinterpret_cast<std::uintptr_t>(memory), end = begin + bytes;
  auto const mask = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)) - 1;
  std::uintptr_t first = (begin + mask) & ~mask, last = end & ~mask;
  // Locked pages cannot be returned.
  if (first >= last || ::madvise(reinterpret_cast<void*>(first), last - first, MADV_REMOVE) != 0) first = last = end;
  std::memset(memory, 0, first - begin);
  std::memset(memory + (last - begin), 0, end - last);
}

TUTTI_INLINE void heap::deallocate(std::byte* memory, std::size_t bytes) {
  std::size_t const offset = static_cast<std::size_t>(memory - base_), size = round_up(bytes);
  clear(memory, size);
  std::lock_guard const lock(changes_);
  auto next = free_.begin();
  while (next != free_.end() && next->offset < offset) ++next;
  bool const joins_next = next != free_.end() && offset + size == next->offset;
  bool const joins_last = next != free_.begin() && next[-1].offset + next[-1].size == offset;
  if (joins_last) next[-1].size += size + (joins_next ? next->size : 0);
  else if (joins_next) *next = {offset, size + next->size};
  else free_.insert(next, {offset, size});
  if (joins_last && joins_next) free_.erase(next);
}

}  // namespace tutti::detail
