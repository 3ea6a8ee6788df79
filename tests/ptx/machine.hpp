// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Executes grids of PTX threads on virtual GPUs, interleaved by a seeded generator.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "ptx/memory.hpp"
#include "ptx/module.hpp"
#include "ptx/past.hpp"

namespace tutti::testing::ptx {

class machine;
class block;

// A mistake of a kernel: what it did, and where.
struct fault : std::runtime_error {
  enum kinds { illegal_address, misaligned, race, trap, illegal_instruction, deadlock } kind;
  fault(kinds k, std::string const& what) : std::runtime_error(what), kind(k) {}
};

struct grid {
  std::shared_ptr<module const> code;
  function const* kernel;
  std::vector<std::byte> parameters;
  int blocks, threads;
  bool together;  // all blocks are resident at once
  int gpu;
  shared_past before = nullptr;  // its launch
  int started = 0, ended = 0;
  std::uint32_t number = 0;
  shared_past learned = nullptr;  // by its threads

  bool done() const { return ended == blocks; }
  shared_past after() const;  // what comes before all that comes after it
};

// The contents of a register, or of a piece of memory. Bytes that nobody has written may be moved, as the padding of structs
// is. A result that is computed from them counts as unwritten; no branch and no address may depend on it.
struct word {
  std::uint64_t value = 0;
  std::uint8_t unwritten = 0;  // bytes, a bit for each
};

// Memory of a function that a thread has called, or of a block.
class private_memory {
 public:
  explicit private_memory(std::size_t bytes = 0) { clear(bytes); }

  void clear(std::size_t bytes) {
    size_ = bytes;
    if (memory_.size() < 2 * bytes) memory_.resize(2 * bytes);
    std::memset(flags(0), 1, bytes);
  }
  std::size_t size() const { return size_; }
  word load(std::size_t at, std::size_t bytes) const {
    switch (bytes) {
      case 8: return load<8>(at);
      case 4: return load<4>(at);
      case 2: return load<2>(at);
      default: return load<1>(at);
    }
  }
  void store(std::size_t at, std::size_t bytes, word const& w) {
    switch (bytes) {
      case 8: return store<8>(at, w);
      case 4: return store<4>(at, w);
      case 2: return store<2>(at, w);
      default: return store<1>(at, w);
    }
  }
  // A flag is a byte that is 0 or 1; a product gathers eight of them in its highest byte.
  template <std::size_t Bytes>
  word load(std::size_t at) const {
    word out;
    std::uint64_t flags_of_it = 0;
    std::memcpy(&out.value, memory_.data() + at, Bytes);
    std::memcpy(&flags_of_it, flags(at), Bytes);
    if (flags_of_it != 0) out.unwritten = static_cast<std::uint8_t>(flags_of_it * 0x0102'0408'1020'4080 >> 56);
    return out;
  }
  template <std::size_t Bytes>
  void store(std::size_t at, word const& w) {
    std::uint64_t flags_of_it = 0;
    if (w.unwritten != 0)
      for (std::size_t k = 0; k < Bytes; ++k) flags_of_it |= std::uint64_t{w.unwritten >> k & 1u} << (8 * k);
    std::memcpy(memory_.data() + at, &w.value, Bytes);
    std::memcpy(flags(at), &flags_of_it, Bytes);
  }
  void write(std::size_t at, void const* from, std::size_t bytes) {
    std::memcpy(memory_.data() + at, from, bytes);
    std::memset(flags(at), 0, bytes);
  }
  void copy(std::size_t at, private_memory const& from, std::size_t begin, std::size_t bytes) {
    std::memcpy(memory_.data() + at, from.memory_.data() + begin, bytes);
    std::memcpy(flags(at), from.flags(begin), bytes);
  }

 private:
  std::byte* flags(std::size_t at) { return memory_.data() + size_ + at; }
  std::byte const* flags(std::size_t at) const { return memory_.data() + size_ + at; }

  std::size_t size_ = 0;
  std::vector<std::byte> memory_;  // and behind it a flag for each byte, whether it is unwritten
};

// What a thread keeps of a function that it has called.
struct frame {
  function const* of = nullptr;
  std::vector<std::uint64_t> registers;  // their values, and behind them a byte for each: which bytes are unwritten
  private_memory memory;                 // parameters, then those that it passes on, then what is local
  instruction const* call = nullptr;     // which returns here

  void clear(function const& f) {
    of = &f;
    auto const count = static_cast<std::size_t>(f.registers);
    if (registers.size() < count + count / 8 + 1) registers.resize(count + count / 8 + 1);
    std::memset(registers.data() + count, 0xff, count);
    memory.clear(f.parameter_bytes + f.call_bytes + f.local_bytes);
  }
  std::size_t first_call() const { return of->parameter_bytes; }
  std::size_t first_local() const { return of->parameter_bytes + of->call_bytes; }
};
using call_stack = std::vector<frame>;  // those of functions that have returned are used again

class thread {
 public:
  thread(block& in, int rank);
  ~thread();

  std::uint64_t value(operand const& o, std::size_t bytes = 8) {
    word const w = word_of(o);
    unwritten_ |= (w.unwritten & ((1u << bytes) - 1)) != 0;
    return w.value;
  }
  // As value, of something that decides what the thread does.
  std::uint64_t deciding_value(operand const& o) const {
    word const w = word_of(o);
    if (w.unwritten != 0) fail_for_unwritten();
    return w.value;
  }
  // To move it.
  [[gnu::always_inline]] word word_of(operand const& o) const {
    if (o.kind == operand::in_register) return {registers_[o.index], unwritten_registers_[o.index]};
    return {o.kind == operand::immediate ? o.value : constant(o), 0};
  }
  void set(operand const& o, std::uint64_t value) {
    set(o, word{value, static_cast<std::uint8_t>(unwritten_ ? 0xff : 0)});
  }
  void set(operand const& o, word const& w) {
    registers_[o.index] = w.value;
    unwritten_registers_[o.index] = w.unwritten;
  }
  std::uint64_t address(operand const& o) const {
    if (o.kind == operand::in_register) return deciding_value(o) + o.value;
    return o.kind == operand::in_frame ? in_frame(o) : constant(o);
  }

  // -- Control.
  void jump(int to) { next_ = innermost().of->body.data() + to; }
  void call(instruction const& i);
  void end_function();  // of the kernel: the thread ends
  void exit();
  void wait_at_barrier();
  // The same, after which i.to[0] says whether any thread of the block has voted so.
  void vote_at_barrier(instruction const& i, bool vote);
  // Gets in[0] of the lane whose number differs from its own by the bits of in[1], or of the one that is in[1] lanes later (down), once
  // all lanes of the warp do so; its own if there is no such lane. to[1], if it is there, tells whether there is one.
  void swap_with_lane(instruction const& i);
  void yield() { yields_ = true; }

  // -- Memory.
  word load(instruction const& i, std::uint64_t address, std::size_t bytes);
  void store(instruction const& i, std::uint64_t address, std::size_t bytes, word what);
  // Weak ones, which are quicker where the memory is the thread's own.
  template <std::size_t Bytes>
  word load_weakly(instruction const& i, std::uint64_t address) {
    spot const found = window_of(address, Bytes);
    return is_own(found) ? found.in->load<Bytes>(found.at) : load(i, address, Bytes);
  }
  template <std::size_t Bytes>
  void store_weakly(instruction const& i, std::uint64_t address, word const& what) {
    spot const found = window_of(address, Bytes);
    is_own(found) ? found.in->store<Bytes>(found.at, what) : store(i, address, Bytes, what);
  }
  // f(old) is the new value. Returns the old one.
  template <class F>
  std::uint64_t exchange(instruction const& i, std::uint64_t address, std::size_t bytes, F&& f);
  void fence(scope of);
  // By an address that stands for one of each member of a team. Such accesses and those by the members' own addresses have an order
  // only if a fence of the aliases lies between them. The machine wants that of whoever makes the former: after its stores and before
  // a barrier or a release, and after a barrier or an acquire and before its loads.
  std::vector<word> load_members(instruction const& i, std::uint64_t address, std::size_t bytes);
  void store_members(instruction const& i, std::uint64_t address, std::size_t bytes, word what);
  void fence_aliases();
  void expect_aligned(std::uint64_t address, std::size_t bytes) const {
    if ((address & (bytes - 1)) != 0) fail_for_misaligned(address, bytes);  // a power of two
  }

  [[noreturn]] void fail(fault::kinds kind, std::string const& what) const;

 private:
  friend class machine;
  friend class block;
  frame& innermost() { return frames_[depth_ - 1]; }
  frame const& innermost() const { return frames_[depth_ - 1]; }
  // The instruction that it executes, or has executed.
  instruction const& last() const { return next_ == innermost().of->body.data() ? *next_ : next_[-1]; }
  std::uint64_t in_frame(operand const& o) const { return o.value | (depth_ - 1) << depth_bits; }
  std::uint64_t constant(operand const& o) const;
  [[noreturn]] void fail_for_unwritten() const;
  [[noreturn]] void fail_for_misaligned(std::uint64_t address, std::size_t bytes) const;
  frame& enter(function const& f);
  void use_innermost();
  struct spot {
    private_memory* in = nullptr;
    std::size_t at = 0;
  };
  // Where this address is, if it lies in a window.
  spot window_of(std::uint64_t address, std::size_t bytes) {
    return address >> window_bits == 0 ? spot{} : in_window(address, bytes);
  }
  spot in_window(std::uint64_t address, std::size_t bytes);
  bool is_own(spot const& found) const;
  memory::range& expect_range(std::uint64_t address, std::size_t bytes, char const* does) const;
  // Fails if another access races with this one.
  void note_access(word_history& in, instruction const& i, std::uint64_t address, std::size_t bytes, bool writes);
  std::vector<std::uint64_t> members_at(std::uint64_t address, std::size_t bytes) const;
  void expect_fenced_stores() const;
  // What a store of this value releases. It continues the release of the value that it replaces in one step.
  shared_release release_of(instruction const& i, memory::range const& to, std::uint64_t value, std::size_t bytes,
                            shared_release const& continued);
  void acquire(memory::range& from, instruction const& i, std::uint64_t address, std::size_t bytes,
               std::uint64_t value);
  void run(int instructions);

  block* block_;
  int rank_;
  agent me_;
  shared_past fenced_;  // what this thread's strong stores release since a fence
  scope fence_scope_{};
  shared_past observed_;  // what a fence would acquire, from strong loads
  call_stack frames_;
  std::size_t depth_ = 0;
  std::uint64_t* registers_ = nullptr;  // of the innermost function
  std::uint8_t* unwritten_registers_ = nullptr;
  instruction const *next_ = nullptr, *end_ = nullptr;  // in the innermost function
  store_buffer stores_;
  store_buffer aliased_;  // stores to members of a team
  bool has_aliased_stores_ = false, may_load_aliased_ = true;
  instruction const* votes_ = nullptr;  // while it waits at a barrier for the result
  instruction const* swaps_ = nullptr;  // while it waits for other lanes
  word given_;                          // to one of them
  bool ended_ = false, waits_ = false, yields_ = false;
  bool unwritten_ = false;  // what the instruction has read
};

class block {
 public:
  block(machine& on, std::shared_ptr<grid> of, int index, cache& first_level);

 private:
  friend class thread;
  friend class machine;
  void release_if_all_wait();
  void release_warp_of(thread& last);
  void publish(std::uint64_t word, partial_word const& w);
  auto publisher() {
    return [this](std::uint64_t word, partial_word const& w) { publish(word, w); };
  }
  // Makes all stores that this block has seen visible to others.
  void drain(thread& also);

  machine& machine_;
  std::shared_ptr<grid> grid_;
  int index_;
  std::uint32_t number_;
  cache& cache_;
  private_memory shared_;
  std::vector<word_history> shared_histories_;
  std::vector<std::unique_ptr<thread>> threads_;
  std::vector<thread*> runnable_;
  int waiting_ = 0, ended_ = 0;
  bool vote_ = false;    // of any thread that waits at a barrier
  store_buffer stores_;  // seen by the whole block
  shared_past learned_;  // by threads that have ended
};

class machine {
 public:
  static constexpr int gpus_at_most = 16;
  enum class on_race { fail, go_on };
  // Of each GPU.
  struct gpu_size {
    int multiprocessors = 4;
    int blocks_each = 8;  // that a multiprocessor runs at once

    int blocks() const { return multiprocessors * blocks_each; }
  };

  explicit machine(std::uint64_t seed, on_race = on_race::fail, gpu_size size = {4, 8});

  // How long kernels may wait for the host, which takes a second or two to find that a rank is missing. Meanwhile the runtime takes few
  // steps.
  void set_patience(std::chrono::seconds patience) { patience_ = patience; }

  gpu_size const& size() const { return size_; }

  ptx::memory& memory() { return memory_; }
  std::uint64_t random(std::uint64_t below) { return random_() % below; }

  // For the host, or a stream of this GPU.
  agent new_agent(int gpu);
  // A copy or the like reads or writes this memory. Throws fault.
  void note_access(agent const& by, void const* memory, std::size_t bytes, bool writes);
  // A stream writes a word, or finds whether it has this value, which releases and acquires.
  void set_word(agent& by, std::uint32_t* word, std::uint32_t value);
  bool is_word(agent& by, std::uint32_t* word, std::uint32_t value);
  // What the host and other processes have been told by words in memory that they share.
  shared_past const& told() const { return told_; }

  void start(std::shared_ptr<grid> g);
  bool idle() const { return running_.empty() && waiting_.empty(); }
  // Runs some thread for a while. Throws fault.
  void step();
  // Many turns of each thread have changed nothing that another one may wait for: only the host or another process can.
  bool stalls() const;

 private:
  friend class thread;
  friend class block;
  void admit();
  void retire(std::size_t which);
  bool is_deadlocked();
  [[noreturn]] void report_deadlock() const;
  std::string name_of(access const& a) const;
  void note_access(agent const& by, word_history& in, access const& now) const;

  std::mt19937_64 random_;
  on_race on_race_;
  gpu_size size_;
  ptx::memory memory_;
  std::vector<std::unique_ptr<cache>> caches_;  // by GPU and multiprocessor
  std::vector<call_stack> stacks_;              // of threads that have ended, for others
  std::list<std::shared_ptr<grid>> waiting_;    // grids with blocks that have not started
  std::vector<std::unique_ptr<block>> running_;
  std::vector<int> resident_;     // blocks, by GPU
  std::uint64_t idle_steps_ = 0;  // since anything changed that somebody may wait for
  std::chrono::steady_clock::time_point idle_since_{};
  std::chrono::seconds patience_{30};
  std::uint32_t grids_ = 0;
  std::vector<std::pair<std::shared_ptr<grid>, int>>
      blocks_;  // by number: its grid and its index there; none of agents
  shared_past told_;
};

inline bool thread::is_own(spot const& found) const { return found.in != nullptr && found.in != &block_->shared_; }

template <class F>
std::uint64_t thread::exchange(instruction const& i, std::uint64_t address, std::size_t bytes, F&& f) {
  expect_aligned(address, bytes);
  block& mine = *block_;
  if (spot const found = window_of(address, bytes); found.in == &mine.shared_) {
    std::size_t const offset = found.at;
    note_access(mine.shared_histories_[offset / 8], i, address, bytes, true);
    word const old = mine.shared_.load(offset, bytes);
    if (old.unwritten != 0) fail(fault::illegal_address, "updates shared memory that nobody has written");
    mine.shared_.store(offset, bytes, {f(old.value), 0});
    return old.value;
  }
  memory::range& in = expect_range(address, bytes, "updates");
  if (in.unwritten_of(address, bytes) != 0) fail(fault::illegal_address, "updates memory that nobody has written");
  note_access(in.history(address), i, address, bytes, true);
  bool const ordered = i.order == order::acquire_release;
  if (ordered) mine.drain(*this);
  std::uint64_t const place = address & ~std::uint64_t{7};
  for (store_buffer* const buffer : {&mine.stores_, &stores_})  // earlier stores of this thread to the word come first
    buffer->drain_word(place, mine.publisher());
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
  acquire(in, i, address, bytes, old);
  if (ordered) mine.cache_.invalidate();
  partial_word w;
  w.set(address & 7, bytes, changed);
  w.releases.fill(release_of(i, in, changed, bytes, in.history(address).released(address)));
  mine.publish(place, w);
  return old;
}

}  // namespace tutti::testing::ptx
