// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replaces operator new, so that a test learns of every allocation of its program and can make it fail. Exactly one source of a
// program may include this; its test has the label `alone`.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace tutti::testing {

// Defined by the source that includes this. Called before each allocation; may throw std::bad_alloc.
void note_allocation(std::size_t bytes);

inline void* allocated(std::size_t bytes, std::size_t alignment = 1) {
  note_allocation(bytes);
  std::size_t const whole = bytes == 0 ? alignment : (bytes + alignment - 1) / alignment * alignment;
  void* const out = alignment == 1 ? std::malloc(whole) : std::aligned_alloc(alignment, whole);
  if (out == nullptr) throw std::bad_alloc();
  return out;
}

}  // namespace tutti::testing

// Not inlined, because GCC would warn that free() does not match operator new. With forms for arrays, because those of
// AddressSanitizer would not call these.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return tutti::testing::allocated(bytes); }
[[gnu::noinline]] void* operator new[](std::size_t bytes) { return tutti::testing::allocated(bytes); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return tutti::testing::allocated(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return tutti::testing::allocated(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
