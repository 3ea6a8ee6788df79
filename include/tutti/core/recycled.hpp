// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of objects that come and go. malloc keeps only 7 blocks of a size at hand, and none of more than 1 KiB.
#pragma once

#include <cstddef>
#include <new>

namespace tutti::detail {

// Whether this is compiled for a tool that looks for memory used after its release.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool checks_addresses = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool checks_addresses = true;
#else
inline constexpr bool checks_addresses = false;
#endif
#else
inline constexpr bool checks_addresses = false;
#endif

// Each thread keeps blocks that it has released for its next objects, 64 KiB of each size, and returns them when it ends.
class recycled_memory {
 public:
  static void* allocate(std::size_t bytes) {
    if (bytes <= max_bytes)
      if (list& kept = kept_[class_of(bytes)]; kept.first != nullptr) [[likely]] {
        block* const out = kept.first;
        kept.first = out->next;
        ++kept.room;
        return out;
      }
    return ::operator new(bytes <= max_bytes ? (class_of(bytes) + 1) * grain : bytes);
  }
  static void release(void* memory, std::size_t bytes) noexcept {
    if (bytes > max_bytes) return ::operator delete(memory);
    list& kept = kept_[class_of(bytes)];
    if (kept.room == 0) [[unlikely]]
      if (!begin_to_keep()) return ::operator delete(memory);
    kept.first = ::new (memory) block{kept.first};
    --kept.room;
  }

 private:
  static constexpr std::size_t grain = 256, classes = 16, max_bytes = classes * grain;
  static constexpr unsigned kept_bytes = 64 << 10;

  struct block {
    block* next;
  };
  struct list {
    block* first;
    unsigned room;  // for so many more blocks
  };
  enum class states { unused, keeps, ended };
  struct at_end_of_thread {
    ~at_end_of_thread() {
      state_ = states::ended;
      for (list& all : kept_)
        for (all.room = 0; all.first != nullptr;) {
          block* const gone = all.first;
          all.first = gone->next;
          ::operator delete(gone);
        }
    }
  };

  static std::size_t class_of(std::size_t bytes) noexcept { return bytes == 0 ? 0 : (bytes - 1) / grain; }
  // False if there are enough blocks, or the thread is ending.
  [[gnu::cold, gnu::noinline]] static bool begin_to_keep() noexcept {
    if (state_ != states::unused || checks_addresses) return false;
    static thread_local at_end_of_thread releases;
    static_cast<void>(releases);
    state_ = states::keeps;
    for (std::size_t i = 0; i < classes; ++i) kept_[i].room = kept_bytes / static_cast<unsigned>((i + 1) * grain);
    return true;
  }

  // Without destructors, so that they can be used as long as the thread runs.
  static inline constinit thread_local list kept_[classes]{};
  static inline constinit thread_local states state_ = states::unused;
};

// The allocator for that.
template <class T>
struct recycled {
  using value_type = T;
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

  recycled() = default;
  template <class U>
  recycled(recycled<U> const&) noexcept {}

  T* allocate(std::size_t n) const { return static_cast<T*>(recycled_memory::allocate(n * sizeof(T))); }
  void deallocate(T* memory, std::size_t n) const noexcept { recycled_memory::release(memory, n * sizeof(T)); }
  template <class U>
  bool operator==(recycled<U> const&) const noexcept {
    return true;
  }
};

}  // namespace tutti::detail
