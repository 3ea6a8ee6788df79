// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ptx/memory.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tutti::testing::ptx {

void memory::add(void* begin, std::size_t bytes, properties const& is) {
  auto const at = reinterpret_cast<std::uint64_t>(begin);
  range& added = ranges_[at] = {at, bytes, is, std::vector<std::uint8_t>(is.written ? 0 : bytes, 1), {}};
  added.histories.resize(((at + bytes) / 8 - at / 8) / 512 + 1);
  last_ = nullptr;
}

void memory::add_team(void* begin, std::size_t bytes, std::vector<std::uint64_t> members) {
  add(begin, bytes, {.written = true});
  ranges_.at(reinterpret_cast<std::uint64_t>(begin)).members = std::move(members);
}

void memory::remove(void* begin) {
  ranges_.erase(reinterpret_cast<std::uint64_t>(begin));
  last_ = nullptr;
}

void memory::share(void* begin) {
  range& of = ranges_.at(reinterpret_cast<std::uint64_t>(begin));
  of.is.foreign = true;
  of.unwritten.clear();
}

memory::range* memory::containing(std::uint64_t address) {
  if (last_ != nullptr && address >= last_->begin && address - last_->begin < last_->bytes) return last_;
  auto const next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return nullptr;
  range& found = std::prev(next)->second;
  if (address - found.begin >= found.bytes) return nullptr;
  return last_ = &found;
}

memory::range* memory::find(std::uint64_t address, std::size_t bytes) {
  range* const found = containing(address);
  return found != nullptr && address - found->begin + bytes <= found->bytes ? found : nullptr;
}

void memory::note_written(void* begin, std::size_t bytes) {
  auto const at = reinterpret_cast<std::uint64_t>(begin);
  range* const found = containing(at);
  if (found == nullptr || found->unwritten.empty()) return;
  std::size_t const offset = at - found->begin;
  std::memset(found->unwritten.data() + offset, 0, std::min(bytes, found->bytes - offset));
}

void write_through(std::uint64_t address, partial_word const& w) {
  auto* const bytes = reinterpret_cast<std::uint8_t*>(address);
  if (w.mask == 0xff) return __atomic_store_n(reinterpret_cast<std::uint64_t*>(address), w.value, __ATOMIC_RELEASE);
  for (std::size_t half = 0; half < 8; half += 4) {
    std::uint8_t const mask = w.mask >> half & 0xf;
    if (mask == 0xf) {
      __atomic_store_n(reinterpret_cast<std::uint32_t*>(address + half),
                       static_cast<std::uint32_t>(w.value >> (8 * half)), __ATOMIC_RELEASE);
    } else {
      for (std::size_t k = 0; k < 4; ++k)
        if ((mask >> k & 1) != 0)
          __atomic_store_n(bytes + half + k, static_cast<std::uint8_t>(w.value >> (8 * (half + k))), __ATOMIC_RELEASE);
    }
  }
}

}  // namespace tutti::testing::ptx
