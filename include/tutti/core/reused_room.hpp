// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One object of a type that may change, in memory that stays for the next.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace tutti::detail {

// Base has a virtual destructor.
template <class Base>
class reused_room {
 public:
  reused_room() = default;
  reused_room(reused_room const&) = delete;
  reused_room& operator=(reused_room const&) = delete;
  ~reused_room() { reset(); }

  template <class T, class... Arguments>
  void emplace(Arguments&&... arguments) {
    reset();
    if (std::size_t const needed = sizeof(T) + alignof(T); needed > bytes_) {
      memory_ = std::make_unique_for_overwrite<std::byte[]>(needed);
      bytes_ = needed;
    }
    void* place = memory_.get();
    std::size_t room = bytes_;
    object_ = ::new (std::align(alignof(T), sizeof(T), place, room)) T(std::forward<Arguments>(arguments)...);
  }
  void reset() noexcept {
    if (Base* const object = std::exchange(object_, nullptr)) object->~Base();
  }

  explicit operator bool() const noexcept { return object_ != nullptr; }
  Base* operator->() const noexcept { return object_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
  Base* object_ = nullptr;
};

}  // namespace tutti::detail
