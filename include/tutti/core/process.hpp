// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tells a process from those that it forks. A child inherits memory, descriptors and objects, but it is no rank: it must neither
// use nor close what belongs to its parent.
#pragma once

#include <atomic>
#include <cstdint>
#include <source_location>
#include <sys/types.h>

namespace tutti::detail {

// The namespace of a kind, such as "cgroup", that this process is in. 0: unknown.
[[gnu::cold]] std::uint64_t own_namespace(char const* kind) noexcept;

// The namespace of this process's number: processes in two containers may have equal numbers. 0: unknown.
inline std::uint64_t process_namespace() noexcept { return own_namespace("pid"); }
// The same of another process, as far as this one may know it.
[[gnu::cold]] std::uint64_t process_namespace_of(pid_t process) noexcept;

// Differs from machine to machine, and each time one starts; the same in all containers of a machine.
[[gnu::cold]] std::uint64_t running_system();

// For a process that ends without destroying its static objects, and so the standard streams.
[[gnu::cold]] void flush_output() noexcept;

// How often fork() has led to this process, since the first owning_process was made.
inline std::atomic<unsigned> forks{0};

// The process that made it.
class owning_process {
 public:
  [[gnu::cold]] owning_process();

  bool is_this() const noexcept { return forks_ == forks.load(std::memory_order_relaxed); }
  // Throws error: bad_argument, in a child.
  void expect_this(std::source_location where) const {
    if (!is_this()) refuse_child(where);
  }

 private:
  [[noreturn, gnu::cold]] void refuse_child(std::source_location where) const;

  unsigned forks_;
  pid_t number_;
};

// An object of the whole process, never destroyed, because static objects may use it as the process ends. A forked child gets a new one:
// a thread of its parent, which the child lacks, may have been changing the parent's, or may have held its lock.
template <class T>
class one_per_process {
 public:
  T& get() {
    owned* last = last_.load(std::memory_order_acquire);
    while (last == nullptr || !last->process.is_this()) {
      auto* const made = new owned;
      if (last_.compare_exchange_strong(last, made, std::memory_order_acq_rel)) return made->object;
      delete made;
    }
    return last->object;
  }

 private:
  struct owned {
    owning_process process;
    T object;
  };
  std::atomic<owned*> last_{nullptr};
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/core/process_impl.hpp"
#endif
