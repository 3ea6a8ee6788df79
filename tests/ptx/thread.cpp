// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A thread of a grid: how it calls functions, waits, and accesses memory.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <sstream>
#include <utility>

#include "ptx/machine.hpp"

namespace tutti::testing::ptx {

namespace {

std::string hexadecimal(std::uint64_t value) {
  std::ostringstream out;
  out << "0x" << std::hex << value;
  return out.str();
}

std::uint64_t low_bytes(std::uint64_t value, std::size_t bytes) {
  return bytes < 8 ? value & ((std::uint64_t{1} << (8 * bytes)) - 1) : value;
}
std::size_t offset_in_window(std::uint64_t address) { return address & ((std::uint64_t{1} << depth_bits) - 1); }

}  // namespace

thread::thread(block& in, int rank)
    : block_(&in),
      rank_(rank),
      me_({in.grid_->number, in.number_, 0, 1, static_cast<std::uint16_t>(rank),
           static_cast<std::uint16_t>(in.grid_->gpu)},
          in.grid_->before) {
  if (std::vector<call_stack>& spare = in.machine_.stacks_; !spare.empty()) {
    frames_ = std::move(spare.back());
    spare.pop_back();
  }
  enter(*in.grid_->kernel).memory.write(0, in.grid_->parameters.data(), in.grid_->parameters.size());
}
thread::~thread() { block_->machine_.stacks_.push_back(std::move(frames_)); }

// -- Control.

frame& thread::enter(function const& f) {
  if (++depth_ > frames_.size()) frames_.emplace_back();
  innermost().clear(f);
  use_innermost();
  next_ = f.body.data();
  return innermost();
}

void thread::use_innermost() {
  frame& mine = innermost();
  registers_ = mine.registers.data();
  unwritten_registers_ = reinterpret_cast<std::uint8_t*>(registers_ + mine.of->registers);
  end_ = mine.of->body.data() + mine.of->body.size();
}

void thread::call(instruction const& i) {
  innermost().call = &i;
  function const& callee = block_->grid_->code->functions[static_cast<std::size_t>(i.target)];
  private_memory& to = enter(callee).memory;
  frame const& caller = frames_[depth_ - 2];
  for (std::size_t k = 0; k < i.passed.size(); ++k)
    to.copy(callee.parameters[k].offset, caller.memory, caller.first_call() + i.passed[k], callee.parameters[k].bytes);
}

void thread::end_function() {
  if (depth_ == 1) return exit();
  frame const& callee = innermost();
  --depth_;
  frame& caller = innermost();
  for (std::size_t k = 0; k < caller.call->returned.size(); ++k) {
    parameter const& result = callee.of->results[k];
    caller.memory.copy(caller.first_call() + caller.call->returned[k], callee.memory, result.offset, result.bytes);
  }
  use_innermost();
  next_ = caller.call + 1;
}

void thread::exit() {
  ended_ = true;
  block_->stores_.take(aliased_);
  block_->stores_.take(stores_);
  block_->learned_ = joined(block_->learned_, me_.known());
  ++block_->ended_;
  block_->machine_.idle_steps_ = 0;
  block_->release_if_all_wait();
}

void thread::wait_at_barrier() {
  expect_fenced_stores();
  may_load_aliased_ = false;
  waits_ = true;
  ++block_->waiting_;
  block_->release_if_all_wait();
}

void thread::vote_at_barrier(instruction const& i, bool vote) {
  votes_ = &i;
  block_->vote_ |= vote;
  wait_at_barrier();
}

void thread::swap_with_lane(instruction const& i) {
  if (static_cast<std::uint32_t>(deciding_value(i.in[3])) != 0xffffffff)
    fail(fault::illegal_instruction, "shuffles with some lanes of a warp");
  swaps_ = &i;
  given_ = word_of(i.in[0]);
  waits_ = true;
  block_->release_warp_of(*this);
}

void thread::run(int instructions) {
  yields_ = false;
  for (int k = 0; k < instructions && !yields_ && !waits_ && !ended_; ++k) {
    if (next_ == end_) {
      end_function();
      continue;
    }
    instruction const& next = *next_++;
    if (next.guard >= 0) {
      if (unwritten_registers_[next.guard] != 0) fail_for_unwritten();
      if ((registers_[next.guard] != 0) == next.unless) continue;
    }
    if (!next.executed) next.executed = true;  // processes share memory until one of them writes to it
    unwritten_ = false;
    next.run(*this, next);
  }
}

std::uint64_t thread::constant(operand const& o) const {
  if (o.kind == operand::immediate) return o.value;
  if (o.kind == operand::in_frame) return in_frame(o);
  switch (static_cast<special>(o.index)) {
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
  function const& in = *innermost().of;
  int const line = last().line;
  throw fault(kind, "thread " + std::to_string(rank_) + " of block " + std::to_string(block_->index_) + " on GPU " +
                        std::to_string(block_->grid_->gpu) + " " + what + "\n  in " + in.name + "\n  at line " +
                        std::to_string(line + 1) +
                        " of its PTX: " + block_->grid_->code->lines[static_cast<std::size_t>(line)]);
}

void thread::fail_for_misaligned(std::uint64_t address, std::size_t bytes) const {
  fail(fault::misaligned, "accesses " + std::to_string(bytes) + " bytes at " + hexadecimal(address));
}

memory::range& thread::expect_range(std::uint64_t address, std::size_t bytes, char const* does) const {
  memory::range* const found = block_->machine_.memory_.find(address, bytes);
  if (found == nullptr)
    fail(fault::illegal_address, std::string(does) + " " + std::to_string(bytes) + " bytes at " + hexadecimal(address) +
                                     ", which is not memory of a GPU");
  if (!found->members.empty())
    fail(fault::illegal_address, std::string(does) + " memory of a team, but not by an instruction multimem");
  return *found;
}

void thread::fail_for_unwritten() const {
  fail(fault::illegal_instruction, "decides by a register that depends on bytes that nobody has written");
}

thread::spot thread::in_window(std::uint64_t address, std::size_t bytes) {
  std::uint64_t const depth = (address & offset_mask) >> depth_bits;
  if (depth >= depth_) fail(fault::illegal_address, "accesses memory of a function that has returned");
  std::uint64_t const window = address & ~offset_mask;
  frame& of = window == call_window ? innermost() : frames_[depth];
  spot out{&of.memory, 0};
  std::size_t size = 0;
  switch (window) {
    case local_window: out.at = of.first_local(), size = of.of->local_bytes; break;
    case param_window: size = of.of->parameter_bytes; break;
    case call_window: out.at = of.first_call(), size = of.of->call_bytes; break;
    case shared_window: out.in = &block_->shared_, size = block_->shared_.size(); break;
    default: return {};
  }
  std::size_t const offset = offset_in_window(address);
  if (offset + bytes > size)
    fail(fault::illegal_address,
         "accesses " + std::to_string(bytes) + " bytes past the end of its shared, local or parameter memory");
  out.at += offset;
  return out;
}

// -- Memory.

void thread::note_access(word_history& in, instruction const& i, std::uint64_t address, std::size_t bytes,
                         bool writes) {
  auto const mask = static_cast<std::uint8_t>(((1u << bytes) - 1) << (address & 7));
  access const now{me_.now(), mask, writes, i.order != order::weak, i.scope, i.line};
  access const* const rival = in.add(now, [this](stamp const& s) { return me_.knows(s); });
  if (rival != nullptr && block_->machine_.on_race_ == machine::on_race::fail)
    fail(fault::race, std::string(writes ? "writes " : "reads ") + std::to_string(bytes) + " bytes at " +
                          hexadecimal(address) + " in a race with " + block_->machine_.name_of(*rival));
}

shared_release thread::release_of(instruction const& i, memory::range const& to, std::uint64_t value, std::size_t bytes,
                                  shared_release const& continued) {
  if (i.order == order::weak) return nullptr;
  release out{value, bytes, nullptr, me_.now(), i.scope};
  if (i.order != order::relaxed) {
    out.before = me_.release();
  } else if (fenced_ != nullptr) {
    out.before = fenced_;
    out.scope = std::min(fence_scope_, i.scope);
  }
  if (continued != nullptr) out.before = joined(out.before, continued->before);
  machine& on = block_->machine_;
  if (to.is.foreign && out.scope == scope::system) on.told_ = joined(on.told_, out.before);
  if (out.before == nullptr && !to.is.foreign) return nullptr;
  return std::make_shared<release>(std::move(out));
}

void thread::acquire(memory::range& from, instruction const& i, std::uint64_t address, std::size_t bytes,
                     std::uint64_t value) {
  if (i.order == order::weak) return;
  shared_release& found = from.history(address).released(address);
  // What the host or another process has written may follow from anything that they have been told.
  if (from.is.foreign && (found == nullptr || found->bytes != bytes || found->value != value))
    found = std::make_shared<release>(release{value, bytes, block_->machine_.told_, {}, scope::system});
  if (found == nullptr || !include_each_other(found->scope, found->by, i.scope, me_.now())) return;
  if (i.order == order::relaxed) observed_ = joined(observed_, found->before);
  else me_.learn(found->before);
}

word thread::load(instruction const& i, std::uint64_t address, std::size_t bytes) {
  if (i.order != order::weak) yield();
  if (spot const found = window_of(address, bytes); found.in != nullptr) {
    if (!is_own(found)) note_access(block_->shared_histories_[found.at / 8], i, address, bytes, false);
    return found.in->load(found.at, bytes);
  }
  memory::range& from = expect_range(address, bytes, "reads");
  note_access(from.history(address), i, address, bytes, false);
  std::uint64_t const place = address & ~std::uint64_t{7};
  word out{i.order == order::weak && from.is.cached
               ? block_->cache_.word(place)
               : __atomic_load_n(reinterpret_cast<std::uint64_t const*>(place), __ATOMIC_ACQUIRE),
           from.unwritten_of(address, bytes)};
  block_->stores_.lay_over(place, out.value);
  stores_.lay_over(place, out.value);
  out.value = low_bytes(out.value >> (8 * (address & 7)), bytes);
  acquire(from, i, address, bytes, out.value);
  if (i.order == order::acquire) {
    block_->cache_.invalidate();
    may_load_aliased_ = false;
  }
  return out;
}

void thread::store(instruction const& i, std::uint64_t address, std::size_t bytes, word what) {
  what.value = low_bytes(what.value, bytes);
  if (spot const found = window_of(address, bytes); found.in != nullptr) {
    if (!is_own(found)) note_access(block_->shared_histories_[found.at / 8], i, address, bytes, true);
    return found.in->store(found.at, bytes, what);
  }
  memory::range& to = expect_range(address, bytes, "writes");
  note_access(to.history(address), i, address, bytes, true);
  if (i.order == order::release) {
    expect_fenced_stores();
    block_->drain(*this);
  }
  to.note_written(address, bytes, what.unwritten);
  stores_.put(address, bytes, what.value, release_of(i, to, what.value, bytes, nullptr));
  if (stores_.size() > 16) stores_.drain_one(block_->machine_.random(stores_.size()), block_->publisher());
}

std::vector<std::uint64_t> thread::members_at(std::uint64_t address, std::size_t bytes) const {
  memory::range const* const team = block_->machine_.memory_.find(address, bytes);
  if (team == nullptr || team->members.empty())
    fail(fault::illegal_address, "accesses " + hexadecimal(address) + " by multimem, which is not memory of a team");
  std::vector<std::uint64_t> out = team->members;
  for (std::uint64_t& member : out) member += address - team->begin;
  return out;
}

std::vector<word> thread::load_members(instruction const& i, std::uint64_t address, std::size_t bytes) {
  if (!may_load_aliased_) fail(fault::race, "reads memory of a team without a fence of the aliases");
  std::vector<word> out;
  for (std::uint64_t const member : members_at(address, bytes)) out.push_back(load(i, member, bytes));
  return out;
}

void thread::store_members(instruction const& i, std::uint64_t address, std::size_t bytes, word what) {
  what.value = low_bytes(what.value, bytes);
  for (std::uint64_t const member : members_at(address, bytes)) {
    memory::range& to = expect_range(member, bytes, "writes");
    note_access(to.history(member), i, member, bytes, true);
    to.note_written(member, bytes, what.unwritten);
    aliased_.put(member, bytes, what.value, release_of(i, to, what.value, bytes, nullptr));
  }
  has_aliased_stores_ = true;
  while (aliased_.size() > 32) aliased_.drain_one(block_->machine_.random(aliased_.size()), block_->publisher());
}

void thread::expect_fenced_stores() const {
  if (has_aliased_stores_)
    fail(fault::race, "lets others go on after it has written memory of a team, without a fence of the aliases");
}

void thread::fence_aliases() {
  stores_.take(aliased_);
  has_aliased_stores_ = false;
  may_load_aliased_ = true;
  block_->cache_.invalidate();
}

void thread::fence(scope of) {
  expect_fenced_stores();
  me_.learn(observed_);
  fenced_ = me_.release();
  fence_scope_ = of;
  if (of == scope::block) return;
  block_->drain(*this);
  block_->cache_.invalidate();
}

}  // namespace tutti::testing::ptx
