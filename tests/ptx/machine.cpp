// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ptx/machine.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tutti::testing::ptx {

shared_past grid::after() const {
  auto out = copy_of(learned);
  out->add_grid(number);
  return out;
}

// -- A block.

block::block(machine& on, std::shared_ptr<grid> of, int index, cache& first_level)
    : machine_(on),
      grid_(std::move(of)),
      index_(index),
      number_(static_cast<std::uint32_t>(on.blocks_.size())),
      cache_(first_level),
      shared_(grid_->kernel->shared_bytes),
      shared_histories_(shared_.size() / 8 + 1) {
  on.blocks_.emplace_back(grid_, index);
  for (int rank = 0; rank < grid_->threads; ++rank) {
    threads_.push_back(std::make_unique<thread>(*this, rank));
    runnable_.push_back(threads_.back().get());
  }
}

void block::release_if_all_wait() {
  if (waiting_ == 0 || waiting_ + ended_ < grid_->threads) return;
  runnable_.clear();
  shared_past together = learned_;
  for (auto const& t : threads_) together = joined(together, t->me_.known());
  auto const known = copy_of(together);
  stamp passed = threads_[0]->me_.now();
  ++passed.barriers;
  known->add_barrier(passed);
  for (auto const& t : threads_) {
    stores_.take(t->stores_);
    t->waits_ = false;
    if (instruction const* const voted = std::exchange(t->votes_, nullptr)) t->set(voted->to[0], word{vote_, 0});
    t->me_.pass_barrier(known);
    if (!t->ended_) runnable_.push_back(t.get());
  }
  waiting_ = 0;
  vote_ = false;
  machine_.idle_steps_ = 0;
}

void block::release_warp_of(thread& last) {
  constexpr int lanes = 32;
  int const first = last.rank_ / lanes * lanes;
  std::vector<thread*> warp;
  for (int rank = first; rank < std::min(first + lanes, grid_->threads); ++rank)
    warp.push_back(threads_[static_cast<std::size_t>(rank)].get());
  for (thread const* t : warp) {
    if (t->swaps_ != nullptr && t->swaps_ != last.swaps_)
      last.fail(fault::illegal_instruction, "shuffles with a lane that is at another shuffle");
    if (t->swaps_ == nullptr) return;
  }
  for (std::size_t lane = 0; lane < warp.size(); ++lane) {
    instruction const& swap = *warp[lane]->swaps_;
    std::size_t const apart = warp[lane]->deciding_value(swap.in[1]);
    std::size_t const other = swap.down ? lane + apart : lane ^ apart;
    warp[lane]->set(swap.to[0], warp[other < warp.size() ? other : lane]->given_);
    if (swap.to[1].kind == operand::in_register) warp[lane]->set(swap.to[1], word{other < warp.size(), 0});
  }
  for (thread* t : warp) {
    t->swaps_ = nullptr;
    t->waits_ = false;
    if (t != &last) runnable_.push_back(t);
  }
  machine_.idle_steps_ = 0;
}

void block::publish(std::uint64_t word, partial_word const& w) {
  std::uint64_t const before = __atomic_load_n(reinterpret_cast<std::uint64_t const*>(word), __ATOMIC_RELAXED);
  std::uint64_t after = before;
  w.lay_over(after);
  write_through(word, w);
  cache_.update(word, w);
  word_history& history = machine_.memory_.containing(word)->history(word);
  for (std::size_t half = 0; half < 2; ++half)
    if ((w.mask >> (4 * half) & 0xf) != 0) history.released(4 * half) = w.releases[half];
  if (after != before) machine_.idle_steps_ = 0;
}

void block::drain(thread& also) {
  stores_.drain(publisher());
  also.stores_.drain(publisher());
}

// -- The machine.

machine::machine(std::uint64_t seed, on_race then, gpu_size size)
    : random_(seed), on_race_(then), size_(size), resident_(gpus_at_most) {
  for (int k = 0; k < gpus_at_most * size_.multiprocessors; ++k) caches_.push_back(std::make_unique<cache>());
}

agent machine::new_agent(int gpu) {
  stamp first;
  first.block = static_cast<std::uint32_t>(blocks_.size());
  first.clock = 1;
  first.gpu = static_cast<std::uint16_t>(gpu);
  blocks_.emplace_back(nullptr, 0);
  return agent(first);
}

std::string machine::name_of(access const& a) const {
  auto const& [of, index] = blocks_[a.by.block];
  if (of == nullptr) return std::string("a copy or the like, which ") + (a.writes ? "writes" : "reads") + " it";
  return "thread " + std::to_string(a.by.thread) + " of block " + std::to_string(index) + " on GPU " +
         std::to_string(of->gpu) + ", which " + (a.writes ? "writes" : "reads") + " it in " + of->kernel->name +
         "\n  at line " + std::to_string(a.line + 1) +
         " of its PTX: " + of->code->lines[static_cast<std::size_t>(a.line)];
}

void machine::note_access(agent const& by, word_history& in, access const& now) const {
  access const* const rival = in.add(now, [&](stamp const& s) { return by.knows(s); });
  if (rival != nullptr && on_race_ == on_race::fail)
    throw fault(fault::race, std::string("a copy or the like ") + (now.writes ? "writes" : "reads") +
                                 " memory in a race with " + name_of(*rival));
}

void machine::note_access(agent const& by, void const* memory, std::size_t bytes, bool writes) {
  auto const begin = reinterpret_cast<std::uint64_t>(memory);
  memory::range* const in = bytes > 0 ? memory_.containing(begin) : nullptr;
  if (in == nullptr) return;
  std::uint64_t const end = std::min(begin + bytes, in->begin + in->bytes);
  for (std::uint64_t at = begin; at < end; at = (at | 7) + 1) {
    std::uint64_t const count = std::min((at | 7) + 1, end) - at;
    auto const mask = static_cast<std::uint8_t>(((1u << count) - 1) << (at & 7));
    note_access(by, in->history(at), {by.now(), mask, writes, false, scope::system, -1});
  }
}

void machine::set_word(agent& by, std::uint32_t* word, std::uint32_t value) {
  auto const at = reinterpret_cast<std::uint64_t>(word);
  if (memory::range* const in = memory_.find(at, sizeof *word)) {
    word_history& history = in->history(at);
    note_access(by, history, {by.now(), static_cast<std::uint8_t>(0xf << (at & 7)), true, true, scope::system, -1});
    stamp const now = by.now();
    shared_past const before = by.release();
    if (in->is.foreign) told_ = joined(told_, before);
    history.released(at) = std::make_shared<release>(release{value, sizeof *word, before, now, scope::system});
    memory_.note_written(word, sizeof *word);
  }
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
  idle_steps_ = 0;
}

bool machine::is_word(agent& by, std::uint32_t* word, std::uint32_t value) {
  if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) return false;
  auto const at = reinterpret_cast<std::uint64_t>(word);
  if (memory::range* const in = memory_.find(at, sizeof *word)) {
    word_history& history = in->history(at);
    note_access(by, history, {by.now(), static_cast<std::uint8_t>(0xf << (at & 7)), false, true, scope::system, -1});
    shared_release const& found = history.released(at);
    bool const seen = found != nullptr && found->bytes == sizeof *word && found->value == value;
    if (seen) by.learn(found->before);
    else if (in->is.foreign) by.learn(told_);
  }
  return true;
}

void machine::start(std::shared_ptr<grid> g) {
  g->number = ++grids_;
  waiting_.push_back(std::move(g));
  idle_steps_ = 0;
}

// Blocks start in order; those of a cooperative grid all at once.
void machine::admit() {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    grid& g = **at;
    int& resident = resident_[static_cast<std::size_t>(g.gpu)];
    int const room = size_.blocks() - resident;
    if (g.together ? room < g.blocks : room == 0) {
      ++at;
      continue;
    }
    int const now =
        g.together ? g.blocks
                   : std::min(g.blocks - g.started, 1 + static_cast<int>(random(static_cast<std::uint64_t>(room))));
    for (int k = 0; k < now; ++k) {
      int const index = g.started++;
      cache& first_level =
          *caches_[static_cast<std::size_t>(g.gpu * size_.multiprocessors + index % size_.multiprocessors)];
      first_level.invalidate();
      running_.push_back(std::make_unique<block>(*this, *at, index, first_level));
      ++resident;
    }
    at = g.started == g.blocks ? waiting_.erase(at) : std::next(at);
  }
}

void machine::retire(std::size_t which) {
  grid& of = *running_[which]->grid_;
  of.learned = joined(of.learned, running_[which]->learned_);
  ++of.ended;
  --resident_[static_cast<std::size_t>(of.gpu)];
  std::swap(running_[which], running_.back());
  running_.pop_back();
}

void machine::report_deadlock() const {
  std::string text = "no thread makes progress:";
  for (auto const& b : running_) {
    thread const& t = *b->threads_[0];
    text += "\n  block " + std::to_string(b->index_) + " on GPU " + std::to_string(b->grid_->gpu) + ", " +
            std::to_string(b->waiting_) + " threads at a barrier, " + std::to_string(b->ended_) + " ended, thread 0 " +
            (t.ended_ ? "ended" : "at " + b->grid_->code->lines[static_cast<std::size_t>(t.last().line)]) + ", in " +
            b->grid_->kernel->name;
  }
  for (auto const& g : waiting_)
    text += "\n  " + std::to_string(g->blocks - g->started) + " blocks wait for room on GPU " + std::to_string(g->gpu) +
            ", of " + g->kernel->name;
  throw fault(fault::deadlock, text);
}

bool machine::stalls() const {
  std::size_t threads = 0;
  for (auto const& b : running_) threads += b->runnable_.size();
  return idle_steps_ > 3000 + 100 * threads;
}

// Steps alone do not tell: kernels may wait for the host.
bool machine::is_deadlocked() {
  static constexpr std::uint64_t some = 10'000, many = 100'000;
  if (idle_steps_ == some) idle_since_ = std::chrono::steady_clock::now();
  return idle_steps_ > many && idle_steps_ % 64 == 0 && stalls() &&
         std::chrono::steady_clock::now() - idle_since_ > patience_;
}

void machine::step() {
  admit();
  ++idle_steps_;
  if (is_deadlocked() || (running_.empty() && !waiting_.empty())) report_deadlock();
  if (running_.empty()) return;
  std::size_t const which = random(running_.size());
  block& b = *running_[which];
  if (!b.runnable_.empty()) {
    // Most instructions belong to long turns, because each turn begins with memory of its thread that is not in the caches.
    static constexpr int lengths[] = {1, 8, 64, 512, 2048};
    std::size_t const chosen = random(b.runnable_.size());
    thread& t = *b.runnable_[chosen];
    t.run(lengths[random(std::size(lengths))]);
    if ((t.waits_ || t.ended_) && chosen < b.runnable_.size() && b.runnable_[chosen] == &t) {
      std::swap(b.runnable_[chosen], b.runnable_.back());
      b.runnable_.pop_back();
    }
  }
  // Stores become visible at random.
  std::uint64_t const dice = random_();
  if ((dice & 1) != 0 && !b.stores_.empty()) b.stores_.drain_one(dice >> 8, b.publisher());
  if (thread& t = *b.threads_[(dice >> 32) % b.threads_.size()]; (dice & 2) != 0 && !t.stores_.empty())
    t.stores_.drain_one(dice >> 8, b.publisher());
  if (thread& t = *b.threads_[(dice >> 32) % b.threads_.size()]; (dice & 4) != 0 && !t.aliased_.empty())
    t.aliased_.drain_one(dice >> 8, b.publisher());
  if (b.ended_ == b.grid_->threads && b.stores_.empty()) retire(which);
}

}  // namespace tutti::testing::ptx
