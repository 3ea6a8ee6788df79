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

TUTTI_INLINE heap::heap(std::byte* base, std::size_t bytes) : base_(base), all_{{0, bytes, true}} {}

TUTTI_INLINE std::byte* heap::allocate(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(-1) - page) return nullptr;
  std::size_t const wanted = round_up(bytes);
  std::lock_guard const lock(changes_);
  auto at = all_.begin();
  while (at != all_.end() && !(at->free && at->size >= wanted)) ++at;
  if (at == all_.end()) return nullptr;
  if (at->size > wanted) {
    at = all_.insert(at, *at);
    at[1] = {at->offset + wanted, at->size - wanted, true};
  }
  *at = {at->offset, wanted, false};
  return base_ + at->offset;
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

TUTTI_INLINE void heap::deallocate(std::byte* memory, std::size_t bytes) noexcept {
  auto const offset = static_cast<std::size_t>(memory - base_);
  clear(memory, round_up(bytes));
  std::lock_guard const lock(changes_);
  auto at = all_.begin();
  while (at->offset != offset) ++at;
  at->free = true;
  if (at != all_.begin() && at[-1].free) --at;
  while (at + 1 != all_.end() && at[1].free) {
    at->size += at[1].size;
    all_.erase(at + 1);
  }
}

}  // namespace tutti::detail
