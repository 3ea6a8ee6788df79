// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hands out pieces of a rank's part of a segment, page by page, and gives freed pages back to the system.
#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <sys/mman.h>

#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// Threads may call it at once: one may make a call while another takes memory.
class heap {
 public:
  heap(std::byte* base, std::size_t bytes) : base_(base) {
    if (bytes > 0) free_.emplace(0, bytes);
  }

  // First fit; null where no free piece is large enough.
  std::byte* allocate(std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(-1) - page) return nullptr;
    std::size_t const wanted = round_up(bytes);
    std::lock_guard const lock(*changes_);
    for (auto piece = free_.begin(); piece != free_.end(); ++piece) {
      auto const [offset, size] = *piece;
      if (size < wanted) continue;
      free_.erase(piece);
      if (size > wanted) free_.emplace(offset + wanted, size - wanted);
      return base_ + offset;
    }
    return nullptr;
  }

  void deallocate(std::byte* memory, std::size_t bytes) {
    std::size_t offset = static_cast<std::size_t>(memory - base_), size = round_up(bytes);
    ::madvise(memory, size, MADV_REMOVE);
    std::lock_guard const lock(*changes_);
    auto next = free_.lower_bound(offset);
    if (next != free_.end() && offset + size == next->first) {
      size += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      auto const before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += size;
        return;
      }
    }
    free_.emplace(offset, size);
  }

 private:
  static std::size_t round_up(std::size_t bytes) { return (bytes + page - 1) / page * page + (bytes == 0 ? page : 0); }

  std::byte* base_;
  std::unique_ptr<std::mutex> changes_ = std::make_unique<std::mutex>();
  std::map<std::size_t, std::size_t> free_;  // offset to size
};

}  // namespace tutti::detail
