// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Host memory that ranks with devices share: the words by which their streams wait for each other, the calls of each rank, and
// the first fault.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tutti/transport/board.hpp"
#include "tutti/transport/notice.hpp"
#include "tutti/transport/segment.hpp"
#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

// The words from one rank to another. After every call streams leave `ready` and `unread` 0, so a captured call can be replayed. A
// call has one or two shots, in each of which a rank lets its peers read memory.
struct alignas(cache_line) device_words {
  std::atomic<std::uint32_t> ready[2];  // by shot: identifies the call in which the sender's memory may be read
  std::atomic<std::uint32_t> unread;    // the receiver has not read the sender's memory yet
};

// A call is identified by a hash of its description, so a replay has the same number.
struct device_page {
  static constexpr std::size_t recent_calls = 64, known_calls = 256;

  alignas(cache_line) std::atomic<std::uint32_t> now;  // the call in which the stream is; 0: none
  std::atomic<std::uint32_t> beat;                     // changes with every launch of a call
  std::atomic<std::uint32_t> report;                   // a kernel_report; 0: there is none
  alignas(cache_line) std::atomic<presence> status;
  std::atomic<std::uint64_t> called;                // number of calls that the program has made
  std::atomic<std::uint64_t> recent[recent_calls];  // sequence number << 32 | number of the call
  call_record calls[known_calls];                   // by the number of the call
  name_list known_names;
  fault_record found;
};

// A view of that memory.
class device_board {
 public:
  device_board(std::byte* base, int ranks) : base_{base}, ranks_{static_cast<std::size_t>(ranks)} {}

  static std::size_t bytes(int ranks) {
    auto const p = static_cast<std::size_t>(ranks);
    std::size_t const all = sizeof(header) + p * sizeof(device_page) + p * p * sizeof(device_words);
    return (all + page - 1) / page * page;
  }

  std::byte* base() const { return base_; }
  int ranks() const { return static_cast<int>(ranks_); }
  device_page& rank(int r) const {
    return reinterpret_cast<device_page*>(base_ + sizeof(header))[static_cast<std::size_t>(r)];
  }
  device_words& between(int from, int to) const {
    auto* const words = reinterpret_cast<device_words*>(&rank(ranks()));
    return words[static_cast<std::size_t>(from) * ranks_ + static_cast<std::size_t>(to)];
  }

  // Not 0 once a rank has raised a fault. The first one counts.
  std::atomic<std::uint32_t>& first_fault() const { return reinterpret_cast<header*>(base_)->first_fault; }
  void raise(fault const& f) const noexcept { publish_fault(first_fault(), rank(f.rank).found, f); }
  bool faulty() const noexcept { return first_fault().load(std::memory_order_seq_cst) != 0; }
  std::optional<fault> find_fault() const {
    return published_fault(first_fault(), [&](int r) -> auto& { return rank(r).found; });
  }

  // Describes a call of this rank, and names its type and operation.
  void introduce(int self, std::uint32_t call, call_words const& words) const noexcept {
    call_record& record = this->record(self, call);
    if (record.sequence.load(std::memory_order_relaxed) != call) write_call(record, call, words, words[site_word]);
  }
  void name(int self, std::uint32_t id, std::string_view text) const noexcept {
    if (id != 0) write_name(rank(self).known_names, id, text);
  }
  std::optional<call_words> find(int r, std::uint32_t call) const noexcept { return read_call(record(r, call), call); }
  std::string name(int r, std::uint32_t id) const { return read_name(rank(r).known_names, id); }

  // Records the `sequence`-th call of this rank's program.
  void note(int self, std::uint64_t sequence, std::uint32_t call) const noexcept {
    recent(self, sequence).store(sequence << 32 | call);
    rank(self).called.store(sequence);
  }
  // The number of a call of another rank; 0 if it was overwritten, or has not been made.
  std::uint32_t noted(int r, std::uint64_t sequence) const noexcept {
    std::uint64_t const entry = recent(r, sequence).load();
    return entry >> 32 == (sequence & 0xffffffff) ? static_cast<std::uint32_t>(entry) : 0;
  }

 private:
  struct alignas(cache_line) header {
    std::atomic<std::uint32_t> first_fault;  // the rank that found it, plus 1; 0: there is none
  };

  // A collision of two calls costs at most the description in an error message.
  call_record& record(int r, std::uint32_t call) const noexcept {
    return rank(r).calls[call / 2 % device_page::known_calls];
  }
  std::atomic<std::uint64_t>& recent(int r, std::uint64_t sequence) const noexcept {
    return rank(r).recent[sequence % device_page::recent_calls];
  }

  std::byte* base_;
  std::size_t ranks_;
};

// Owns that memory: an unnamed file, which other processes of the same user open through the process that created it.
class device_board_memory {
 public:
  // Identifies the file to them.
  struct place {
    std::int64_t process = 0;
    std::int32_t file = -1;
    std::uint64_t number = 0;  // of the file
  };

  explicit device_board_memory(int ranks);
  device_board_memory(place const& there, int ranks);
  device_board_memory(device_board_memory const&) = delete;
  device_board_memory& operator=(device_board_memory const&) = delete;
  ~device_board_memory();

  std::byte* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }
  place where() const;

 private:
  void map();

  descriptor file_;
  std::size_t bytes_;
  std::byte* base_ = nullptr;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/device/watch/board_impl.hpp"
#endif
