// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One object that is created when it is first needed, by any thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

namespace tutti::detail {

template <class T>
class made_once {
 public:
  made_once() = default;
  made_once(made_once const&) = delete;
  made_once& operator=(made_once const&) = delete;
  ~made_once() { reset(); }

  // Null before it was created.
  T* get() const noexcept { return made_.load(std::memory_order_acquire); }
  // make() returns a std::unique_ptr to it, or to a derived type.
  template <class Make>
  T& get_or(Make&& make) {
    if (T* const made = get()) [[likely]]
      return *made;
    return get_or_make(make);
  }
  // Destroys the object; no other is created meanwhile. Called by one thread, when no other needs it any more.
  void reset() noexcept { std::unique_ptr<T>(made_.exchange(nullptr)).reset(); }

 private:
  template <class Make>
  [[gnu::cold, gnu::noinline]] T& get_or_make(Make& make) {
    std::lock_guard const lock(making_);
    if (get() == nullptr) made_.store(make().release(), std::memory_order_release);
    return *get();
  }

  std::atomic<T*> made_{nullptr};
  std::mutex making_;
};

}  // namespace tutti::detail
