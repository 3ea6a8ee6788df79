// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory that kernels of the machine can address, weaker than that of the host: stores become visible late and out of
// order, and ordinary loads may find what was there before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <unordered_map>
#include <vector>

namespace tutti::testing::ptx {

// Memory of the host that devices may access.
class memory {
 public:
  struct range {
    std::uint64_t begin, bytes;
    bool cached;                        // ordinary loads go through a cache
    std::vector<std::uint8_t> written;  // a byte each; empty if all of it counts as written
  };

  void add(void* begin, std::size_t bytes, bool cached, bool written);
  void remove(void* begin);
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
  std::uint8_t mask = 0;  // a bit for each byte

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
  void put(std::uint64_t address, std::size_t bytes, std::uint64_t value) {
    words_[address & ~std::uint64_t{7}].set(address & 7, bytes, value);
  }
  void lay_over(std::uint64_t address, std::uint64_t& word) const {
    if (words_.empty()) return;
    if (auto const found = words_.find(address); found != words_.end()) found->second.lay_over(word);
  }
  bool has(std::uint64_t word) const { return !words_.empty() && words_.contains(word); }
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
  void take(store_buffer& other) {
    other.drain([&](std::uint64_t address, partial_word const& w) {
      partial_word& mine = words_[address];
      for (std::size_t k = 0; k < 8; ++k)
        if ((w.mask >> k & 1) != 0) mine.set(k, 1, w.value >> (8 * k) & 0xff);
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
