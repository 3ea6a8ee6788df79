// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What instrumented code calls: for each access to memory a function of ThreadSanitizer's interface, and, by the linker's --wrap,
// functions of the C library that access memory, wait or read the clock.
#include <linux/futex.h>
#include <sys/syscall.h>

#include <cstdarg>
#include <cstddef>
#include <cstdint>

#include "explore/execution.hpp"

using tutti::testing::explore::execution;

namespace {

// The execution, if its program accesses shared memory.
execution* explored(void volatile const* address, std::size_t bytes) {
  execution* const e = execution::of_this_thread();
  return e != nullptr && e->is_shared(const_cast<void const*>(address), bytes) ? e : nullptr;
}

void plain(void volatile const* address, std::size_t bytes, bool writes) {
  if (execution* const e = bytes > 0 ? explored(address, bytes) : nullptr)
    e->plain(const_cast<void const*>(address), bytes, writes);
}

std::memory_order order_of(int order) { return static_cast<std::memory_order>(order & 0xff); }

template <class T>
T load(T volatile const* address, int order) {
  if (execution* const e = explored(address, sizeof(T)))
    return static_cast<T>(e->load(const_cast<T const*>(address), sizeof(T), order_of(order)));
  return __atomic_load_n(address, __ATOMIC_SEQ_CST);
}

template <class T>
void store(T volatile* address, T value, int order) {
  if (execution* const e = explored(address, sizeof(T)))
    e->store(const_cast<T*>(address), sizeof(T), value, order_of(order));
  else __atomic_store_n(address, value, __ATOMIC_SEQ_CST);
}

template <class T, class Next>
T update(T volatile* address, int order, Next const& next) {
  if (execution* const e = explored(address, sizeof(T)))
    return static_cast<T>(e->update(const_cast<T*>(address), sizeof(T), order_of(order),
                                    [&](std::uint64_t now) { return next(static_cast<T>(now)); }));
  T now = __atomic_load_n(address, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(address, &now, next(now), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  return now;
}

template <class T>
T compare_exchange(T volatile* address, T expected, T desired, int order, int failure) {
  if (execution* const e = explored(address, sizeof(T)))
    return static_cast<T>(
        e->compare_exchange(const_cast<T*>(address), sizeof(T), expected, desired, order_of(order), order_of(failure)));
  __atomic_compare_exchange_n(address, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}

template <class T>
int compare_exchange_in_place(T volatile* address, T* expected, T desired, int order, int failure) {
  T const found = compare_exchange(address, *expected, desired, order, failure);
  bool const replaced = found == *expected;
  *expected = found;
  return replaced;
}

}  // namespace

extern "C" {

void* __real_memcpy(void* to, void const* from, std::size_t bytes);
void* __real_memmove(void* to, void const* from, std::size_t bytes);
void* __real_memset(void* to, int value, std::size_t bytes);
long __real_syscall(long number, ...);
int __real_sched_yield();
long long __real__ZNSt6chrono3_V212steady_clock3nowEv();

// -- Plain accesses.

#define TUTTI_PLAIN(bytes)                                                                 \
  void __tsan_read##bytes(void* address) { plain(address, bytes, false); }                 \
  void __tsan_write##bytes(void* address) { plain(address, bytes, true); }                 \
  void __tsan_unaligned_read##bytes(void const* address) { plain(address, bytes, false); } \
  void __tsan_unaligned_write##bytes(void* address) { plain(address, bytes, true); }       \
  void __tsan_volatile_read##bytes(void* address) { plain(address, bytes, false); }        \
  void __tsan_volatile_write##bytes(void* address) { plain(address, bytes, true); }        \
  void __tsan_read_write##bytes(void* address) { plain(address, bytes, true); }            \
  void __tsan_unaligned_read_write##bytes(void* address) { plain(address, bytes, true); }
TUTTI_PLAIN(1)
TUTTI_PLAIN(2)
TUTTI_PLAIN(4)
TUTTI_PLAIN(8)
TUTTI_PLAIN(16)
#undef TUTTI_PLAIN

void __tsan_read_range(void* address, std::size_t bytes) { plain(address, bytes, false); }
void __tsan_write_range(void* address, std::size_t bytes) { plain(address, bytes, true); }

void* __wrap_memcpy(void* to, void const* from, std::size_t bytes) {
  plain(from, bytes, false);
  plain(to, bytes, true);
  return __real_memcpy(to, from, bytes);
}
void* __wrap_memmove(void* to, void const* from, std::size_t bytes) {
  plain(from, bytes, false);
  plain(to, bytes, true);
  return __real_memmove(to, from, bytes);
}
void* __wrap_memset(void* to, int value, std::size_t bytes) {
  plain(to, bytes, true);
  return __real_memset(to, value, bytes);
}
void* __tsan_memcpy(void* to, void const* from, std::size_t bytes) { return __wrap_memcpy(to, from, bytes); }
void* __tsan_memmove(void* to, void const* from, std::size_t bytes) { return __wrap_memmove(to, from, bytes); }
void* __tsan_memset(void* to, int value, std::size_t bytes) { return __wrap_memset(to, value, bytes); }

// -- Atomic accesses.

#define TUTTI_ATOMIC(bits)                                                                                             \
  std::uint##bits##_t __tsan_atomic##bits##_load(std::uint##bits##_t const volatile* address, int order) {             \
    return load(address, order);                                                                                       \
  }                                                                                                                    \
  void __tsan_atomic##bits##_store(std::uint##bits##_t volatile* address, std::uint##bits##_t value, int order) {      \
    store(address, value, order);                                                                                      \
  }                                                                                                                    \
  std::uint##bits##_t __tsan_atomic##bits##_exchange(std::uint##bits##_t volatile* address, std::uint##bits##_t value, \
                                                     int order) {                                                      \
    return update(address, order, [=](std::uint##bits##_t) { return value; });                                         \
  }                                                                                                                    \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_add(std::uint##bits##_t volatile* address,                           \
                                                      std::uint##bits##_t value, int order) {                          \
    return update(address, order,                                                                                      \
                  [=](std::uint##bits##_t now) { return static_cast<std::uint##bits##_t>(now + value); });             \
  }                                                                                                                    \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_sub(std::uint##bits##_t volatile* address,                           \
                                                      std::uint##bits##_t value, int order) {                          \
    return update(address, order,                                                                                      \
                  [=](std::uint##bits##_t now) { return static_cast<std::uint##bits##_t>(now - value); });             \
  }                                                                                                                    \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_and(std::uint##bits##_t volatile* address,                           \
                                                      std::uint##bits##_t value, int order) {                          \
    return update(address, order,                                                                                      \
                  [=](std::uint##bits##_t now) { return static_cast<std::uint##bits##_t>(now & value); });             \
  }                                                                                                                    \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_or(std::uint##bits##_t volatile* address, std::uint##bits##_t value, \
                                                     int order) {                                                      \
    return update(address, order,                                                                                      \
                  [=](std::uint##bits##_t now) { return static_cast<std::uint##bits##_t>(now | value); });             \
  }                                                                                                                    \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_xor(std::uint##bits##_t volatile* address,                           \
                                                      std::uint##bits##_t value, int order) {                          \
    return update(address, order,                                                                                      \
                  [=](std::uint##bits##_t now) { return static_cast<std::uint##bits##_t>(now ^ value); });             \
  }                                                                                                                    \
  int __tsan_atomic##bits##_compare_exchange_strong(std::uint##bits##_t volatile* address,                             \
                                                    std::uint##bits##_t* expected, std::uint##bits##_t desired,        \
                                                    int order, int failure) {                                          \
    return compare_exchange_in_place(address, expected, desired, order, failure);                                      \
  }                                                                                                                    \
  int __tsan_atomic##bits##_compare_exchange_weak(std::uint##bits##_t volatile* address,                               \
                                                  std::uint##bits##_t* expected, std::uint##bits##_t desired,          \
                                                  int order, int failure) {                                            \
    return compare_exchange_in_place(address, expected, desired, order, failure);                                      \
  }                                                                                                                    \
  std::uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                                      \
      std::uint##bits##_t volatile* address, std::uint##bits##_t expected, std::uint##bits##_t desired, int order,     \
      int failure) {                                                                                                   \
    return compare_exchange(address, expected, desired, order, failure);                                               \
  }
TUTTI_ATOMIC(8)
TUTTI_ATOMIC(16)
TUTTI_ATOMIC(32)
TUTTI_ATOMIC(64)
#undef TUTTI_ATOMIC

void __tsan_atomic_thread_fence(int order) {
  if (execution* const e = execution::of_this_thread()) e->fence(order_of(order));
}
void __tsan_atomic_signal_fence(int) {}

// -- What else compilers insert.

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

// -- Waiting and time. No time passes within an execution.

long __wrap_syscall(long number, ...) {
  std::va_list list;
  va_start(list, number);
  long argument[6];
  for (long& a : argument) a = va_arg(list, long);
  va_end(list);
  auto* const address = reinterpret_cast<std::uint32_t*>(argument[0]);
  execution* const e = number == SYS_futex ? explored(address, sizeof *address) : nullptr;
  if (e == nullptr)
    return __real_syscall(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
  if (argument[1] == FUTEX_WAIT) e->wait_on_futex(address, static_cast<std::uint32_t>(argument[2]));
  else e->wake_on_futex(address);
  return 0;
}

int __wrap_sched_yield() {
  if (execution* const e = execution::of_this_thread()) e->pause();
  else return __real_sched_yield();
  return 0;
}

long long __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  return execution::of_this_thread() != nullptr ? 0 : __real__ZNSt6chrono3_V212steady_clock3nowEv();
}

}  // extern "C"
