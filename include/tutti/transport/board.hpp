// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The notice board of a segment: the last call of each rank, and the first fault. Every call writes to it; only ranks
// that have waited long read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tutti/transport/notice.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// -- Records that one rank writes while others may read them.

// Writes `site` in place of the last word.
inline void write_call(call_record& record, std::uint64_t sequence, call_words const& call,
                       std::uint64_t site) noexcept {
  record.sequence.store(0, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  // Compilers leave a loop of atomic stores as it is.
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (record.word[I].store(call[I], std::memory_order_release), ...);
  }(std::make_index_sequence<site_word>{});
  record.word[site_word].store(site, std::memory_order_release);
  record.sequence.store(sequence, std::memory_order_release);
}
// The call, if the record holds this one.
inline std::optional<call_words> read_call(call_record const& record, std::uint64_t sequence) noexcept {
  if (sequence == 0 || record.sequence.load(std::memory_order_acquire) != sequence) return {};
  call_words out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = record.word[i].load(std::memory_order_acquire);
  if (record.sequence.load(std::memory_order_acquire) != sequence) return {};
  return out;
}

// Names of types, operations and files, by hash, so that a peer can print the names that this rank used.
void write_name(name_list& list, std::uint32_t id, std::string_view text) noexcept;
std::string read_name(name_list const& list, std::uint32_t id);

// `next`: the call that its rank would make next.
void write_reason(leaving_record& record, std::uint64_t next, circumstance when, std::string_view text) noexcept;
leaving_reason read_reason(leaving_record const& record, std::uint64_t next);

// A rank writes the fault that it finds to its own record and then names itself in `first`, unless another rank was
// earlier. A rank that dies in between has raised no fault, so the others find its loss.
void publish_fault(std::atomic<std::uint32_t>& first, fault_record& own, fault const& f) noexcept;
fault read_fault(fault_record const& record);
// The fault that was published in `first`. record_of(rank) is where that rank writes its own.
template <class RecordOf>
std::optional<fault> published_fault(std::atomic<std::uint32_t> const& first, RecordOf const& record_of) {
  std::uint32_t const finder = first.load(std::memory_order_acquire);
  if (finder == 0) return {};
  return read_fault(record_of(static_cast<int>(finder - 1)));
}

class board {
 public:
  board(segment const& s, int rank) : segment_(&s), self_(&s.rank(rank)) {}

  std::uint64_t identity() const noexcept { return segment_->header().identity; }

  void begin(std::uint64_t sequence, call_words const& call, std::uint64_t site) noexcept {
    write_call(self_->calls[sequence % records], sequence, call, site);
    self_->called.store(sequence, std::memory_order_release);
  }
  void finish(std::uint64_t sequence) noexcept { self_->finished.store(sequence, std::memory_order_release); }

  std::uint64_t called(int rank) const noexcept { return segment_->rank(rank).called.load(std::memory_order_acquire); }
  std::uint64_t finished(int rank) const noexcept {
    return segment_->rank(rank).finished.load(std::memory_order_acquire);
  }
  // Call `sequence` of a rank, if the rank has reached it and the board still has it.
  std::optional<call_words> find(int rank, std::uint64_t sequence) const noexcept {
    return read_call(segment_->rank(rank).calls[sequence % records], sequence);
  }

  // Announces the message outside calls that this rank waits for, or withdraws the announcement.
  void set_awaited(call_words const& message) noexcept {
    write_call(self_->awaited, ++awaits_, message, message[site_word]);
  }
  void clear_awaited() noexcept { self_->awaited.sequence.store(0, std::memory_order_release); }
  std::optional<call_words> awaited(int rank) const noexcept {
    call_record const& record = segment_->rank(rank).awaited;
    return read_call(record, record.sequence.load(std::memory_order_acquire));
  }

  void introduce(std::uint32_t id, std::string_view text) noexcept { write_name(self_->known_names, id, text); }
  std::string name(int rank, std::uint32_t id) const { return read_name(segment_->rank(rank).known_names, id); }

  void explain_leaving(circumstance when, std::string_view text) noexcept {
    write_reason(self_->leaving, self_->called.load(std::memory_order_relaxed) + 1, when, text);
  }
  leaving_reason reason_to_leave(int rank) const { return read_reason(segment_->rank(rank).leaving, called(rank) + 1); }

  // All ranks report the first fault, whoever finds it.
  void raise(fault const& f) noexcept { publish_fault(segment_->header().first_fault, self_->found, f); }
  bool faulty() const noexcept { return segment_->header().first_fault.load(std::memory_order_seq_cst) != 0; }
  // All ranks see the same fault, so there is nothing to decide.
  template <class Decided>
  void acknowledge_fault(Decided const&) noexcept {}
  std::optional<fault> find_fault() const {
    return published_fault(segment_->header().first_fault, [&](int r) -> auto& { return segment_->rank(r).found; });
  }

  // Either a rank that has raised a fault sees that a peer is reading, or that peer sees the fault.
  void set_reading(bool on) noexcept {
    self_->reading.store(on, on ? std::memory_order_seq_cst : std::memory_order_release);
  }
  bool reading(int rank) const noexcept { return segment_->rank(rank).reading.load(std::memory_order_seq_cst) != 0; }

 private:
  segment const* segment_;
  rank_page* self_;
  std::uint64_t awaits_ = 0;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/board_impl.hpp"
#endif
