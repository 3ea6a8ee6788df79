// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that is kept from call to call and lent to one call at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "tutti/call/grown_memory.hpp"
#include "tutti/core/config.hpp"

namespace tutti::detail {

struct free_aligned {
  void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{cache_line}); }
};
using aligned_memory = std::unique_ptr<std::byte, free_aligned>;

inline aligned_memory allocate_aligned(std::size_t bytes) {
  return aligned_memory(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{cache_line})));
}

// The memory of a call, which is its own or goes back when the call ends.
class borrowed_memory {
 public:
  borrowed_memory() = default;
  explicit borrowed_memory(std::size_t bytes) : own_(allocate_aligned(bytes)), data_(own_.get()) {}
  // At least `bytes` of `kept`. `lent` becomes false when they go back.
  template <class Transport>
  borrowed_memory(grown_memory<Transport>& kept, std::size_t bytes, std::atomic<bool>& lent)
      : lent_(&lent), data_(kept.at_least(bytes)) {}

  std::byte* data() const noexcept { return data_; }

 private:
  struct give_back {
    void operator()(std::atomic<bool>* lent) const { lent->store(false, std::memory_order_release); }
  };

  aligned_memory own_;
  std::unique_ptr<std::atomic<bool>, give_back> lent_;
  std::byte* data_ = nullptr;
};

// A call packs its arrays before it enters the engine, so another thread may still be using this memory. Such a call gets memory of
// its own, and is refused when it enters.
template <class Transport>
class lent_memory {
 public:
  explicit lent_memory(Transport& transport) : kept_(transport) {}

  borrowed_memory at_least(std::size_t bytes) {
    if (lent_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      return borrowed_memory(bytes);
    return borrowed_memory(kept_, bytes, lent_);
  }

 private:
  grown_memory<Transport> kept_;
  std::atomic<bool> lent_ = false;
};

// The same for a list of numbers.
struct lent_numbers {
  std::vector<std::size_t> all;
  std::atomic<bool> lent = false;
};

}  // namespace tutti::detail
