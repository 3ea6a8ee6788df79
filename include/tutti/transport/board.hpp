// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The notice board of a segment: what each rank called last, and the first fault. Written at every call, read only by
// ranks that have waited long.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tutti/transport/notice.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// -- Records that one rank writes and others may read meanwhile.

inline void write_call(call_record& record, std::uint64_t sequence, call_words const& call) noexcept {
  record.sequence.store(0, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  for (std::size_t i = 0; i < call.size(); ++i) record.word[i].store(call[i], std::memory_order_release);
  record.sequence.store(sequence, std::memory_order_release);
}
// If that is what it has.
inline std::optional<call_words> read_call(call_record const& record, std::uint64_t sequence) noexcept {
  if (sequence == 0 || record.sequence.load(std::memory_order_acquire) != sequence) return {};
  call_words out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = record.word[i].load(std::memory_order_acquire);
  if (record.sequence.load(std::memory_order_acquire) != sequence) return {};
  return out;
}

// Names of types, operations and files, by hash, so that a peer can print what this rank used.
inline void write_name(std::span<name_record> list, std::uint32_t id, std::string_view text) noexcept {
  for (name_record& entry : list) {
    std::uint32_t const taken = entry.id.load(std::memory_order_relaxed);
    if (taken == id) return;
    if (taken != 0) continue;
    std::size_t const length = std::min(text.size(), sizeof entry.text - 1);
    std::memcpy(entry.text, text.data(), length);
    entry.text[length] = '\0';
    entry.id.store(id, std::memory_order_release);
    return;
  }
}
inline std::string read_name(std::span<name_record const> list, std::uint32_t id) {
  for (name_record const& entry : list)
    if (entry.id.load(std::memory_order_acquire) == id) return entry.text;
  return "?";
}

// The first fault wins.
inline void write_fault(fault_record& record, fault const& f) noexcept {
  std::uint32_t none = 0;
  if (!record.state.compare_exchange_strong(none, 1, std::memory_order_seq_cst)) return;
  record.code = f.code;
  record.rank = f.rank;
  record.peer = f.peer;
  std::size_t const length = std::min(f.text.size(), sizeof record.text - 1);
  std::memcpy(record.text, f.text.data(), length);
  record.text[length] = '\0';
  record.state.store(2, std::memory_order_release);
}
inline std::optional<fault> read_fault(fault_record const& record) {
  if (record.state.load(std::memory_order_acquire) != 2) return {};
  return fault{record.code, record.rank, record.peer, record.text};
}

class board {
 public:
  board(segment const& s, int rank) : segment_(&s), self_(&s.rank(rank)) {}

  // `order` is seq_cst where a rank that finds a fault must know who has begun before it was told.
  void begin(std::uint64_t sequence, call_words const& call, std::uint64_t place,
             std::memory_order order = std::memory_order_release) noexcept {
    write_call(self_->calls[sequence % records], sequence, at_place(call, place));
    self_->called.store(sequence, order);
  }
  void finish(std::uint64_t sequence) noexcept { self_->finished.store(sequence, std::memory_order_release); }

  std::uint64_t called(int rank) const noexcept { return segment_->rank(rank).called.load(std::memory_order_seq_cst); }
  std::uint64_t finished(int rank) const noexcept {
    return segment_->rank(rank).finished.load(std::memory_order_acquire);
  }
  // Call `sequence` of a rank, if it has got so far and the board still has it.
  std::optional<call_words> find(int rank, std::uint64_t sequence) const noexcept {
    return read_call(segment_->rank(rank).calls[sequence % records], sequence);
  }

  // The message that this rank waits for, beside all calls; and that it waits no more.
  void set_awaited(call_words const& message) noexcept { write_call(self_->awaited, ++awaits_, message); }
  void clear_awaited() noexcept { self_->awaited.sequence.store(0, std::memory_order_release); }
  std::optional<call_words> awaited(int rank) const noexcept {
    call_record const& record = segment_->rank(rank).awaited;
    return read_call(record, record.sequence.load(std::memory_order_acquire));
  }

  void introduce(std::uint32_t id, std::string_view text) noexcept { write_name(self_->known_names, id, text); }
  std::string name(int rank, std::uint32_t id) const { return read_name(segment_->rank(rank).known_names, id); }

  // Everyone who finds a fault reports the first.
  void raise(fault const& f) noexcept { write_fault(segment_->header().fault, f); }
  bool faulty() const noexcept { return segment_->header().fault.state.load(std::memory_order_seq_cst) != 0; }
  // There is one fault for all, so nothing is left to decide.
  template <class Decided>
  void acknowledge_fault(Decided const&) noexcept {
    self_->knows_fault.store(1, std::memory_order_release);
  }
  bool knows_fault(int rank) const noexcept {
    return segment_->rank(rank).knows_fault.load(std::memory_order_acquire) != 0;
  }
  std::optional<fault> find_fault() const { return read_fault(segment_->header().fault); }

 private:
  segment const* segment_;
  rank_page* self_;
  std::uint64_t awaits_ = 0;
};

}  // namespace tutti::detail
