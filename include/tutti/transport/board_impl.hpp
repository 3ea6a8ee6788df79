// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/board.hpp.
#pragma once

#include "tutti/core/text.hpp"
#include "tutti/transport/board.hpp"

namespace tutti::detail {

TUTTI_INLINE std::string read_name(name_list const& list, std::uint32_t id) {
  for (name_record const& entry : list)
    if (entry.id.load(std::memory_order_acquire) == id) return entry.text;
  return "?";
}

TUTTI_INLINE void write_name(name_list& list, std::uint32_t id, std::string_view text) noexcept {
  for (name_record& entry : list) {
    std::uint32_t const taken = entry.id.load(std::memory_order_relaxed);
    if (taken == id) return;
    if (taken != 0) continue;
    write_terminated(entry.text, text);
    entry.id.store(id, std::memory_order_release);
    return;
  }
}

TUTTI_INLINE void write_reason(leaving_record& record, std::uint64_t next, circumstance when,
                               std::string_view text) noexcept {
  // Peers read the record once this rank has left or ended. It may die between two stores, so the compiler must keep their order.
  record.instead_of.store(0, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  record.when = when;
  write_terminated(record.text, text);
  record.instead_of.store(next, std::memory_order_release);
}

TUTTI_INLINE leaving_reason read_reason(leaving_record const& record, std::uint64_t next) {
  if (record.instead_of.load(std::memory_order_acquire) != next) return {};
  return {record.when, record.text};
}

TUTTI_INLINE void publish_fault(std::atomic<std::uint32_t>& first, fault_record& own, fault const& f) noexcept {
  if (own.taken.exchange(true, std::memory_order_relaxed)) return;  // another thread of this rank is about to publish
  own.code = f.code;
  own.rank = f.rank;
  own.peer = f.peer;
  own.when = f.when;
  write_terminated(own.text, f.text);
  std::uint32_t none = 0;
  first.compare_exchange_strong(none, static_cast<std::uint32_t>(f.rank) + 1, std::memory_order_seq_cst);
}

TUTTI_INLINE fault read_fault(fault_record const& record) {
  return fault{record.code, record.rank, record.peer, record.text, record.when};
}

}  // namespace tutti::detail
