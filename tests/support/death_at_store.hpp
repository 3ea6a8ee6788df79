// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ends or stops this process immediately before a chosen store to memory that it shares with others, in the machine code that
// users run: shared mappings are made read-only, and each store faults, is counted, and is executed as a single step.
// A death between two stores leaves the same memory as one right before the second, so these are all deaths that differ.
#pragma once

#if defined(__x86_64__) && defined(__linux__)
#define TUTTI_TEST_KILLS_AT_STORES 1

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

namespace tutti::testing {

// One per process. Counts the stores of one thread at a time.
class death_at_store {
 public:
  // From now on counts stores to mappings made by this process, and calls `event` in the handler of a signal before number
  // `last`, from 1; 0: never.
  static void arm(std::uint64_t last, std::function<void()> event = [] { die(); }) {
    state& s = now();
    s.last = last;
    s.count = 0;
    s.event = std::move(event);
    struct sigaction on_fault{};
    on_fault.sa_flags = SA_SIGINFO | SA_NODEFER;
    on_fault.sa_sigaction = &begin_store;
    ::sigaction(SIGSEGV, &on_fault, nullptr);
    on_fault.sa_sigaction = &end_store;
    ::sigaction(SIGTRAP, &on_fault, nullptr);
    s.armed = true;
    for (range const& r : s.ranges) protect(r, PROT_READ);
  }
  static void die() { ::kill(::getpid(), SIGKILL); }
  // Ends the counting; returns how many stores there were.
  static std::uint64_t disarm() {
    state& s = now();
    s.armed = false;
    for (range const& r : s.ranges) protect(r, PROT_READ | PROT_WRITE);
    return s.count;
  }

  // -- Called for every mapping that the program makes or removes.

  static void mapped(void* at, std::size_t bytes) {
    state& s = now();
    for (range& r : s.ranges) {
      if (r.bytes != 0) continue;
      r = {static_cast<std::byte*>(at), bytes};
      if (s.armed) protect(r, PROT_READ);
      return;
    }
  }
  // A store of the system on behalf of this thread, which would be refused.
  template <class Call>
  static auto as_one_store(void* at, Call&& call) {
    state& s = now();
    for (range const& r : s.ranges)
      if (s.armed && r.has(static_cast<std::byte*>(at))) {
        count_store();
        protect(r, PROT_READ | PROT_WRITE);
        auto const out = call();
        protect(r, PROT_READ);
        return out;
      }
    return call();
  }
  static void unmapped(void* at) {
    for (range& r : now().ranges)
      if (r.at == at) r = {};
  }

 private:
  static constexpr std::size_t page = 4096;
  static constexpr greg_t single_step = 0x100;
  static constexpr std::size_t widest_store = 64;

  struct range {
    std::byte* at = nullptr;
    std::size_t bytes = 0;

    bool has(std::byte const* address) const { return address >= at && address < at + bytes; }
  };
  struct state {
    std::array<range, 64> ranges{};
    bool armed = false;
    std::uint64_t count = 0, last = 0;
    std::function<void()> event;
    range open;  // the pages of the store that is being executed
  };
  static state& now() {
    static state s;
    return s;
  }

  static void protect(range const& r, int how) {
    if (r.bytes != 0) ::mprotect(r.at, r.bytes, how);
  }

  static void count_store() {
    state& s = now();
    if (++s.count != s.last) return;
    s.event();
  }

  // Executes `rep movsb`, `rep movsq` and `rep stosb`, with which memcpy and memset treat large blocks, in one go: as
  // single steps they would take one for each byte.
  static bool repeat_store(greg_t* registers) {
    auto const* const code = reinterpret_cast<unsigned char const*>(registers[REG_RIP]);
    bool const wide = code[0] == 0xf3 && code[1] == 0x48 && code[2] == 0xa5, moves = code[0] == 0xf3 && code[1] == 0xa4,
               fills = code[0] == 0xf3 && code[1] == 0xaa;
    if (!wide && !moves && !fills) return false;
    auto* const to = reinterpret_cast<std::byte*>(registers[REG_RDI]);
    auto const bytes = static_cast<std::size_t>(registers[REG_RCX]) * (wide ? 8 : 1);
    for (range const& r : now().ranges) {
      if (!r.has(to)) continue;
      protect(r, PROT_READ | PROT_WRITE);
      if (fills) std::memset(to, static_cast<int>(registers[REG_RAX]), bytes);
      else std::memmove(to, reinterpret_cast<void const*>(registers[REG_RSI]), bytes);
      protect(r, PROT_READ);
    }
    registers[REG_RDI] += static_cast<greg_t>(bytes);
    if (!fills) registers[REG_RSI] += static_cast<greg_t>(bytes);
    registers[REG_RCX] = 0;
    registers[REG_RIP] += wide ? 3 : 2;
    return true;
  }

  static void begin_store(int, siginfo_t* info, void* context) {
    state& s = now();
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    auto* const address = static_cast<std::byte*>(info->si_addr);
    if (std::ranges::none_of(s.ranges, [&](range const& r) { return r.has(address); })) {
      ::signal(SIGSEGV, SIG_DFL);  // a real fault, which happens again
      return;
    }
    count_store();
    if (repeat_store(registers)) return;
    auto const first = reinterpret_cast<std::uintptr_t>(address) / page,
               last = (reinterpret_cast<std::uintptr_t>(address) + widest_store - 1) / page;
    s.open = {reinterpret_cast<std::byte*>(first * page), (last - first + 1) * page};
    protect(s.open, PROT_READ | PROT_WRITE);
    registers[REG_EFL] |= single_step;
  }
  static void end_store(int, siginfo_t*, void* context) {
    state& s = now();
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    if (s.armed) protect(s.open, PROT_READ);
    s.open = {};
    registers[REG_EFL] &= ~single_step;
  }
};

}  // namespace tutti::testing

// These take the place of the C library's functions in the program that includes this header.
extern "C" {
void* mmap(void* at, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  void* const out = reinterpret_cast<void*>(::syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
  if (out != MAP_FAILED && (flags & MAP_SHARED) != 0 && file >= 0 && (protection & PROT_WRITE) != 0)
    tutti::testing::death_at_store::mapped(out, bytes);
  return out;
}
int munmap(void* at, std::size_t bytes) noexcept {
  tutti::testing::death_at_store::unmapped(at);
  return static_cast<int>(::syscall(SYS_munmap, at, bytes));
}
ssize_t process_vm_readv(pid_t process, iovec const* here, unsigned long parts, iovec const* there,
                         unsigned long parts_there, unsigned long flags) noexcept {
  return tutti::testing::death_at_store::as_one_store(
      here->iov_base, [&] { return ::syscall(SYS_process_vm_readv, process, here, parts, there, parts_there, flags); });
}
}

#endif
