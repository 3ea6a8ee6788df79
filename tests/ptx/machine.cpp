// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ptx/machine.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sstream>
#include <utility>

namespace tutti::testing::ptx {

namespace {

std::string hexadecimal(std::uint64_t value) {
  std::ostringstream out;
  out << "0x" << std::hex << value;
  return out.str();
}

}  // namespace

// -- A thread.

thread::thread(block& in, int rank) : block_(&in), rank_(rank) { enter(*in.grid_->kernel, in.grid_->parameters); }

void thread::enter(function const& f, std::vector<std::byte> parameters) {
  frame& mine = frames_.emplace_back();
  mine.of = &f;
  mine.registers.resize(static_cast<std::size_t>(f.registers));
  parameters.resize(f.parameter_bytes);
  mine.parameters = std::move(parameters);
  mine.calls.resize(f.call_bytes);
  mine.local.resize(f.local_bytes);
  registers_ = mine.registers.data();
}

void thread::call(instruction const& i) {
  function const& callee = block_->grid_->code->functions[static_cast<std::size_t>(i.target)];
  frame& caller = frames_.back();
  caller.call = &i;
  std::vector<std::byte> parameters(callee.parameter_bytes);
  for (std::size_t k = 0; k < i.passed.size(); ++k)
    std::memcpy(parameters.data() + callee.parameters[k].offset, caller.calls.data() + i.passed[k],
                callee.parameters[k].bytes);
  enter(callee, std::move(parameters));
}

void thread::end_function() {
  if (frames_.size() == 1) return exit();
  frame const callee = std::move(frames_.back());
  frames_.pop_back();
  frame& caller = frames_.back();
  for (std::size_t k = 0; k < caller.call->returned.size(); ++k) {
    parameter const& result = callee.of->results[k];
    std::memcpy(caller.calls.data() + caller.call->returned[k], callee.parameters.data() + result.offset, result.bytes);
  }
  registers_ = caller.registers.data();
}

void thread::exit() {
  ended_ = true;
  block_->stores_.take(stores_);
  ++block_->ended_;
  block_->machine_.idle_steps_ = 0;
  block_->release_if_all_wait();
}

void thread::wait_at_barrier() {
  waits_ = true;
  ++block_->waiting_;
  block_->release_if_all_wait();
}

std::uint64_t thread::special_value(special which) const {
  switch (which) {
    case special::tid: return static_cast<std::uint64_t>(rank_);
    case special::ntid: return static_cast<std::uint64_t>(block_->grid_->threads);
    case special::ctaid: return static_cast<std::uint64_t>(block_->index_);
    case special::nctaid: return static_cast<std::uint64_t>(block_->grid_->blocks);
    case special::lane: return static_cast<std::uint64_t>(rank_ % 32);
    case special::nanoseconds:
      return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    case special::zero: break;
  }
  return 0;
}

void thread::fail(fault::kinds kind, std::string const& what) const {
  frame const& at = frames_.back();
  int const line = at.of->body[static_cast<std::size_t>(std::max(at.at - 1, 0))].line;
  throw fault(kind, "thread " + std::to_string(rank_) + " of block " + std::to_string(block_->index_) + " on GPU " +
                        std::to_string(block_->grid_->gpu) + " " + what + "\n  in " + at.of->name + "\n  at line " +
                        std::to_string(line + 1) +
                        " of its PTX: " + block_->grid_->code->lines[static_cast<std::size_t>(line)]);
}

void thread::expect_aligned(std::uint64_t address, std::size_t bytes) const {
  if (address % bytes != 0)
    fail(fault::misaligned, "accesses " + std::to_string(bytes) + " bytes at " + hexadecimal(address));
}

memory::range& thread::expect_range(std::uint64_t address, std::size_t bytes, char const* does) const {
  memory::range* const found = block_->machine_.memory_.find(address, bytes);
  if (found == nullptr)
    fail(fault::illegal_address, std::string(does) + " " + std::to_string(bytes) + " bytes at " + hexadecimal(address) +
                                     ", which is not memory of a GPU");
  return *found;
}

// Windows are private to a thread or a block, so they are plain memory.
std::byte* thread::place_in_window(std::uint64_t address, std::size_t bytes) {
  std::uint64_t const space = address & ~offset_mask;
  std::uint64_t const depth = (address & offset_mask) >> depth_bits;
  std::uint64_t const offset = address & ((std::uint64_t{1} << depth_bits) - 1);
  if (space != shared_window && space != local_window && space != param_window && space != call_window) return nullptr;
  if (depth >= frames_.size()) fail(fault::illegal_address, "accesses memory of a function that has returned");
  std::vector<std::byte>* const window = space == shared_window  ? &block_->shared_
                                         : space == local_window ? &frames_[depth].local
                                         : space == param_window ? &frames_[depth].parameters
                                                                 : &frames_.back().calls;
  if (offset + bytes > window->size())
    fail(fault::illegal_address,
         "accesses " + std::to_string(bytes) + " bytes past the end of its shared, local or parameter memory");
  return window->data() + offset;
}

std::uint64_t thread::load(instruction const& i, std::uint64_t address, std::size_t bytes) {
  std::uint64_t word = 0;
  if (std::byte const* const at = place_in_window(address, bytes)) {
    std::memcpy(&word, at, bytes);
    if (i.order != order::weak) yield();
    return word;
  }
  memory::range& from = expect_range(address, bytes, "reads");
  if (!from.written.empty())
    for (std::size_t k = 0; k < bytes; ++k)
      if (from.written[address - from.begin + k] == 0)
        fail(fault::illegal_address,
             "reads " + std::to_string(bytes) + " bytes at " + hexadecimal(address) + ", which nobody has written");
  std::uint64_t const place = address & ~std::uint64_t{7};
  word = i.order == order::weak && from.cached
             ? block_->cache_.word(place)
             : __atomic_load_n(reinterpret_cast<std::uint64_t const*>(place), __ATOMIC_ACQUIRE);
  block_->stores_.lay_over(place, word);
  stores_.lay_over(place, word);
  if (i.order == order::acquire) block_->cache_.invalidate();
  if (i.order != order::weak) yield();
  return word >> (8 * (address & 7));
}

void thread::store(instruction const& i, std::uint64_t address, std::size_t bytes, std::uint64_t value) {
  if (std::byte* const at = place_in_window(address, bytes)) {
    std::memcpy(at, &value, bytes);
    return;
  }
  memory::range& to = expect_range(address, bytes, "writes");
  if (i.order == order::release) block_->drain(*this);
  if (!to.written.empty())
    std::fill_n(to.written.begin() + static_cast<std::ptrdiff_t>(address - to.begin), bytes, std::uint8_t{1});
  stores_.put(address, bytes, value);
  auto const publish = [&](std::uint64_t a, partial_word const& w) { block_->publish(a, w); };
  if (stores_.size() > 16) stores_.drain_one(block_->machine_.random(stores_.size()), publish);
}

void thread::fence() {
  block_->drain(*this);
  block_->cache_.invalidate();
}

void thread::run(int instructions) {
  yields_ = false;
  for (int k = 0; k < instructions && !yields_ && !waits_ && !ended_; ++k) {
    frame& mine = frames_.back();
    if (mine.at == static_cast<int>(mine.of->body.size())) {
      end_function();
      continue;
    }
    instruction const& next = mine.of->body[static_cast<std::size_t>(mine.at++)];
    if (next.guard >= 0 && (registers_[next.guard] != 0) == next.unless) continue;
    next.run(*this, next);
  }
}

// -- A block.

block::block(machine& on, std::shared_ptr<grid> of, int index, cache& first_level)
    : machine_(on), grid_(std::move(of)), index_(index), cache_(first_level), shared_(grid_->kernel->shared_bytes) {
  for (int rank = 0; rank < grid_->threads; ++rank) {
    threads_.push_back(std::make_unique<thread>(*this, rank));
    runnable_.push_back(threads_.back().get());
  }
}

void block::release_if_all_wait() {
  if (waiting_ == 0 || waiting_ + ended_ < grid_->threads) return;
  runnable_.clear();
  for (auto const& t : threads_) {
    stores_.take(t->stores_);
    t->waits_ = false;
    if (!t->ended_) runnable_.push_back(t.get());
  }
  waiting_ = 0;
  machine_.idle_steps_ = 0;
}

void block::publish(std::uint64_t word, partial_word const& w) {
  std::uint64_t const before = __atomic_load_n(reinterpret_cast<std::uint64_t const*>(word), __ATOMIC_RELAXED);
  std::uint64_t after = before;
  w.lay_over(after);
  write_through(word, w);
  cache_.update(word, w);
  if (after != before) machine_.idle_steps_ = 0;
}

void block::drain(thread& also) {
  auto const all = [&](std::uint64_t a, partial_word const& w) { publish(a, w); };
  stores_.drain(all);
  also.stores_.drain(all);
}

// -- The machine.

machine::machine(std::uint64_t seed) : random_(seed), resident_(gpus_at_most) {
  for (int k = 0; k < gpus_at_most * multiprocessors; ++k) caches_.push_back(std::make_unique<cache>());
}

void machine::start(std::shared_ptr<grid> g) {
  waiting_.push_back(std::move(g));
  idle_steps_ = 0;
}

// Blocks start in order; those of a cooperative grid all at once.
void machine::admit() {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    grid& g = **at;
    int& resident = resident_[static_cast<std::size_t>(g.gpu)];
    int const room = multiprocessors * blocks_each - resident;
    if (g.together ? room < g.blocks : room == 0) {
      ++at;
      continue;
    }
    int const now =
        g.together ? g.blocks
                   : std::min(g.blocks - g.started, 1 + static_cast<int>(random(static_cast<std::uint64_t>(room))));
    for (int k = 0; k < now; ++k) {
      int const index = g.started++;
      cache& first_level = *caches_[static_cast<std::size_t>(g.gpu * multiprocessors + index % multiprocessors)];
      first_level.invalidate();
      running_.push_back(std::make_unique<block>(*this, *at, index, first_level));
      ++resident;
    }
    at = g.started == g.blocks ? waiting_.erase(at) : std::next(at);
  }
}

void machine::retire(std::size_t which) {
  grid& of = *running_[which]->grid_;
  ++of.ended;
  --resident_[static_cast<std::size_t>(of.gpu)];
  std::swap(running_[which], running_.back());
  running_.pop_back();
}

void machine::report_deadlock() const {
  std::string text = "no thread makes progress:";
  for (auto const& b : running_) {
    thread const& t = *b->threads_[0];
    thread::frame const& at = t.frames_.back();
    instruction const& next = at.of->body[static_cast<std::size_t>(std::max(at.at - 1, 0))];
    text += "\n  block " + std::to_string(b->index_) + " on GPU " + std::to_string(b->grid_->gpu) + ", " +
            std::to_string(b->waiting_) + " threads at a barrier, " + std::to_string(b->ended_) + " ended, thread 0 " +
            (t.ended_ ? "ended" : "at " + b->grid_->code->lines[static_cast<std::size_t>(next.line)]) + ", in " +
            b->grid_->kernel->name;
  }
  for (auto const& g : waiting_)
    text += "\n  " + std::to_string(g->blocks - g->started) + " blocks wait for room on GPU " + std::to_string(g->gpu) +
            ", of " + g->kernel->name;
  throw fault(fault::deadlock, text);
}

void machine::step() {
  static constexpr std::uint64_t deadlocked = 20'000'000;
  admit();
  if (++idle_steps_ > deadlocked || (running_.empty() && !waiting_.empty())) report_deadlock();
  if (running_.empty()) return;
  std::size_t const which = random(running_.size());
  block& b = *running_[which];
  if (!b.runnable_.empty()) {
    static constexpr int lengths[] = {1, 4, 16, 64, 256};
    std::size_t const chosen = random(b.runnable_.size());
    thread& t = *b.runnable_[chosen];
    t.run(lengths[random(std::size(lengths))]);
    if ((t.waits_ || t.ended_) && chosen < b.runnable_.size() && b.runnable_[chosen] == &t) {
      std::swap(b.runnable_[chosen], b.runnable_.back());
      b.runnable_.pop_back();
    }
  }
  // Stores become visible at random.
  auto const publish = [&](std::uint64_t a, partial_word const& w) { b.publish(a, w); };
  std::uint64_t const dice = random_();
  if ((dice & 1) != 0 && !b.stores_.empty()) b.stores_.drain_one(dice >> 8, publish);
  if (thread& t = *b.threads_[(dice >> 32) % b.threads_.size()]; (dice & 2) != 0 && !t.stores_.empty())
    t.stores_.drain_one(dice >> 8, publish);
  if (b.ended_ == b.grid_->threads && b.stores_.empty()) retire(which);
}

}  // namespace tutti::testing::ptx
