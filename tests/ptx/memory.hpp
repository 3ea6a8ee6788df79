// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory that kernels of the machine can address, weaker than that of the host: stores become visible late and out of
// order, and ordinary loads may find what was there before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "ptx/accesses.hpp"

namespace tutti::testing::ptx {

// Memory of the host that devices may access.
class memory {
 public:
  struct properties {
    bool cached = false;   // ordinary loads go through a cache
    bool written = false;  // all of it, before it is added
    bool foreign = false;  // the host or other processes write to it, which the machine does not see
  };
  struct range {
    std::uint64_t begin, bytes;
    properties is;
    std::vector<std::uint8_t> unwritten;  // a byte each; empty if all of it counts as written
    std::vector<std::unique_ptr<std::array<word_history, 512>>> histories;  // those in use
    std::vector<std::uint64_t> members = {};  // where each begins, if it stands for several

    word_history& history(std::uint64_t address) {
      std::uint64_t const word = address / 8 - begin / 8;
      auto& page = histories[word / 512];
      if (page == nullptr) page = std::make_unique<std::array<word_history, 512>>();
      return (*page)[word % 512];
    }
    // Of these bytes, a bit for each.
    std::uint8_t unwritten_of(std::uint64_t address, std::size_t count) const {
      std::uint8_t out = 0;
      if (!unwritten.empty())
        for (std::size_t k = 0; k < count; ++k) out |= static_cast<std::uint8_t>(unwritten[address - begin + k] << k);
      return out;
    }
    void note_written(std::uint64_t address, std::size_t count, std::uint8_t but = 0) {
      if (!unwritten.empty())
        for (std::size_t k = 0; k < count; ++k) unwritten[address - begin + k] = but >> k & 1;
    }
  };

  void add(void* begin, std::size_t bytes, properties const& is);
  // Addresses that stand for the same place of several ranges, for the instructions multimem.* only.
  void add_team(void* begin, std::size_t bytes, std::vector<std::uint64_t> members);
  void remove(void* begin);
  // Other processes may write to it from now on.
  void share(void* begin);
  // The range that contains all of these bytes, or null.
  range* find(std::uint64_t address, std::size_t bytes);
  // The range in which this byte lies, or null.
  range* containing(std::uint64_t address);
  // By the host or by copies.
  void note_written(void* begin, std::size_t bytes);

 private:
  std::map<std::uint64_t, range> ranges_;
  range* last_ = nullptr;
};

// One word of 8 bytes, of which some are set.
struct partial_word {
  std::uint64_t value = 0;
  std::uint8_t mask = 0;                   // a bit for each byte
  std::array<shared_release, 2> releases;  // of its halves

  void set(std::size_t at, std::size_t bytes, std::uint64_t from) {
    std::memcpy(reinterpret_cast<std::byte*>(&value) + at, &from, bytes);
    mask |= static_cast<std::uint8_t>(((1u << bytes) - 1) << at);
  }
  void lay_over(std::uint64_t& word) const {
    for (int k = 0; k < 8; ++k)
      if ((mask >> k & 1) != 0) {
        std::uint64_t const byte = std::uint64_t{0xff} << (8 * k);
        word = (word & ~byte) | (value & byte);
      }
  }
};

// Stores that only their owner sees: a thread, or after a barrier the threads of a block. A word is visible to others all at
// once, and words in any order.
class store_buffer {
 public:
  bool empty() const { return words_.empty(); }
  std::size_t size() const { return words_.size(); }
  void put(std::uint64_t address, std::size_t bytes, std::uint64_t value, shared_release const& releases) {
    partial_word& word = words_[address & ~std::uint64_t{7}];
    word.set(address & 7, bytes, value);
    for (std::size_t half = (address & 7) / 4; half * 4 < (address & 7) + bytes; ++half) word.releases[half] = releases;
  }
  void lay_over(std::uint64_t address, std::uint64_t& word) const {
    if (words_.empty()) return;
    if (auto const found = words_.find(address); found != words_.end()) found->second.lay_over(word);
  }
  // Calls write(address of the word, word) for one of them, or for all.
  template <class Write>
  void drain_one(std::size_t which, Write&& write) {
    auto at = words_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(which % words_.size()));
    write(at->first, at->second);
    words_.erase(at);
  }
  template <class Write>
  void drain(Write&& write) {
    for (auto const& [address, word] : words_) write(address, word);
    words_.clear();
  }
  template <class Write>
  void drain_word(std::uint64_t word, Write&& write) {
    if (auto const found = words_.find(word); found != words_.end()) {
      write(word, found->second);
      words_.erase(found);
    }
  }
  void take(store_buffer& other) {
    other.drain([&](std::uint64_t address, partial_word const& w) {
      partial_word& mine = words_[address];
      for (std::size_t k = 0; k < 8; ++k)
        if ((w.mask >> k & 1) != 0) mine.set(k, 1, w.value >> (8 * k) & 0xff);
      for (std::size_t half = 0; half < 2; ++half)
        if ((w.mask >> (4 * half) & 0xf) != 0) mine.releases[half] = w.releases[half];
    });
  }

 private:
  std::map<std::uint64_t, partial_word> words_;
};

// The first-level cache of a multiprocessor, whose lines stay as they are until an acquire.
class cache {
 public:
  static constexpr std::uint64_t line_bytes = 128;

  std::uint64_t word(std::uint64_t address) {
    line& at = lines_[place(address)];
    std::uint64_t const begin = address & ~(line_bytes - 1);
    if (at.begin != begin) {
      at.begin = begin;
      std::memcpy(at.bytes.data(), reinterpret_cast<void const*>(begin), line_bytes);
    }
    std::uint64_t out;
    std::memcpy(&out, at.bytes.data() + (address - begin), 8);
    return out;
  }
  // The multiprocessor's own stores.
  void update(std::uint64_t address, partial_word const& w) {
    line& at = lines_[place(address)];
    if (at.begin != (address & ~(line_bytes - 1))) return;
    std::uint64_t word;
    std::byte* const place_of_word = at.bytes.data() + (address - at.begin);
    std::memcpy(&word, place_of_word, 8);
    w.lay_over(word);
    std::memcpy(place_of_word, &word, 8);
  }
  void invalidate() {
    for (line& l : lines_) l.begin = 0;
  }

 private:
  struct line {
    std::uint64_t begin = 0;
    std::array<std::byte, line_bytes> bytes;
  };
  static std::size_t place(std::uint64_t address) { return address / line_bytes % 64; }
  std::array<line, 64> lines_;
};

// Makes the bytes of a word that are set visible to everybody.
void write_through(std::uint64_t address, partial_word const& w);

}  // namespace tutti::testing::ptx
