// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Executes grids of PTX threads on virtual GPUs, interleaved by a seeded generator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "ptx/memory.hpp"
#include "ptx/module.hpp"

namespace tutti::testing::ptx {

class machine;
class block;

// A mistake of a kernel: what it did, and where.
struct fault : std::runtime_error {
  enum kinds { illegal_address, misaligned, trap, illegal_instruction, deadlock } kind;
  fault(kinds k, std::string const& what) : std::runtime_error(what), kind(k) {}
};

struct grid {
  std::shared_ptr<module const> code;
  function const* kernel;
  std::vector<std::byte> parameters;
  int blocks, threads;
  bool together;  // all blocks are resident at once
  int gpu;
  int started = 0, ended = 0;

  bool done() const { return ended == blocks; }
};

class thread {
 public:
  thread(block& in, int rank);

  std::uint64_t value(operand const& o) const {
    if (o.kind == operand::in_register) return registers_[o.index];
    if (o.kind == operand::immediate) return o.value;
    if (o.kind == operand::in_frame) return in_frame(o);
    return special_value(static_cast<special>(o.index));
  }
  void set(operand const& o, std::uint64_t value) { registers_[o.index] = value; }
  std::uint64_t address(operand const& o) const {
    if (o.kind == operand::in_register) return registers_[o.index] + o.value;
    return o.kind == operand::in_frame ? in_frame(o) : o.value;
  }

  // -- Control.
  void jump(int to) { frames_.back().at = to; }
  void call(instruction const& i);
  void end_function();  // of the kernel: the thread ends
  void exit();
  void wait_at_barrier();
  void yield() { yields_ = true; }

  // -- Memory.
  std::uint64_t load(instruction const& i, std::uint64_t address, std::size_t bytes);
  void store(instruction const& i, std::uint64_t address, std::size_t bytes, std::uint64_t value);
  // f(old) is the new value. Returns the old one.
  template <class F>
  std::uint64_t exchange(instruction const& i, std::uint64_t address, std::size_t bytes, F&& f);
  void fence();
  void expect_aligned(std::uint64_t address, std::size_t bytes) const;

  [[noreturn]] void fail(fault::kinds kind, std::string const& what) const;

 private:
  friend class machine;
  friend class block;
  struct frame {
    function const* of;
    int at = 0;
    std::vector<std::uint64_t> registers;
    std::vector<std::byte> parameters, calls, local;
    instruction const* call = nullptr;  // which returns here
  };
  std::uint64_t in_frame(operand const& o) const { return o.value | (frames_.size() - 1) << depth_bits; }
  std::uint64_t special_value(special which) const;
  void enter(function const& f, std::vector<std::byte> parameters);
  std::byte* place_in_window(std::uint64_t address, std::size_t bytes);
  memory::range& expect_range(std::uint64_t address, std::size_t bytes, char const* does) const;
  void run(int instructions);

  block* block_;
  int rank_;
  std::vector<frame> frames_;
  std::uint64_t* registers_ = nullptr;
  store_buffer stores_;
  bool ended_ = false, waits_ = false, yields_ = false;
};

class block {
 public:
  block(machine& on, std::shared_ptr<grid> of, int index, cache& first_level);

 private:
  friend class thread;
  friend class machine;
  void release_if_all_wait();
  void publish(std::uint64_t word, partial_word const& w);
  // Makes all stores that this block has seen visible to others.
  void drain(thread& also);

  machine& machine_;
  std::shared_ptr<grid> grid_;
  int index_;
  cache& cache_;
  std::vector<std::byte> shared_;
  std::vector<std::unique_ptr<thread>> threads_;
  std::vector<thread*> runnable_;
  int waiting_ = 0, ended_ = 0;
  store_buffer stores_;  // seen by the whole block
};

class machine {
 public:
  static constexpr int gpus_at_most = 16;
  static constexpr int multiprocessors = 4;
  static constexpr int blocks_each = 8;  // of a multiprocessor

  explicit machine(std::uint64_t seed);

  ptx::memory& memory() { return memory_; }
  std::uint64_t random(std::uint64_t below) { return random_() % below; }

  void start(std::shared_ptr<grid> g);
  bool idle() const { return running_.empty() && waiting_.empty(); }
  // Runs some thread for a while. Throws fault.
  void step();

 private:
  friend class thread;
  friend class block;
  void admit();
  void retire(std::size_t which);
  [[noreturn]] void report_deadlock() const;

  std::mt19937_64 random_;
  ptx::memory memory_;
  std::vector<std::unique_ptr<cache>> caches_;  // by GPU and multiprocessor
  std::list<std::shared_ptr<grid>> waiting_;    // grids with blocks that have not started
  std::vector<std::unique_ptr<block>> running_;
  std::vector<int> resident_;     // blocks, by GPU
  std::uint64_t idle_steps_ = 0;  // since anything changed that somebody may wait for
};

template <class F>
std::uint64_t thread::exchange(instruction const& i, std::uint64_t address, std::size_t bytes, F&& f) {
  expect_aligned(address, bytes);
  block& mine = *block_;
  if ((address & ~offset_mask) == shared_window) {
    std::byte* const at = place_in_window(address, bytes);
    std::uint64_t old = 0;
    std::memcpy(&old, at, bytes);
    std::uint64_t const changed = f(old);
    std::memcpy(at, &changed, bytes);
    return old;
  }
  expect_range(address, bytes, "updates");
  if (i.order == order::acquire_release) fence();
  std::uint64_t const word = address & ~std::uint64_t{7};
  for (store_buffer* const buffer : {&mine.stores_, &stores_})  // earlier stores of this thread to the word come first
    if (buffer->has(word)) buffer->drain([&](std::uint64_t a, partial_word const& w) { mine.publish(a, w); });
  std::uint64_t old = 0;
  std::uint64_t changed = 0;
  if (bytes == 4) {
    auto* const at = reinterpret_cast<std::uint32_t*>(address);
    std::uint32_t seen = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    do changed = f(seen);
    while (!__atomic_compare_exchange_n(at, &seen, static_cast<std::uint32_t>(changed), false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE));
    old = seen;
  } else {
    auto* const at = reinterpret_cast<std::uint64_t*>(address);
    old = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    do changed = f(old);
    while (!__atomic_compare_exchange_n(at, &old, changed, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  }
  partial_word w;
  w.set(address & 7, bytes, changed);
  mine.publish(word, w);
  return old;
}

}  // namespace tutti::testing::ptx
