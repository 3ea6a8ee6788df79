// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/board.hpp.
#pragma once

#include <cstring>

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
  // Peers may read the record meanwhile, or this rank may die between two stores. A reader that sees one of them sees `stores` change.
  char whole[sizeof(leaving_record::text)];
  write_terminated(whole, text);
  std::uint32_t const before = record.stores.load(std::memory_order_relaxed);
  record.stores.store(before + 1, std::memory_order_relaxed);
  record.instead_of.store(next, std::memory_order_release);
  record.when.store(when, std::memory_order_release);
  std::size_t const length = std::strlen(whole) + 1;
  for (std::size_t i = 0; i < length; ++i) record.text[i].store(whole[i], std::memory_order_release);
  record.stores.store(before + 2, std::memory_order_release);
}

TUTTI_INLINE leaving_reason read_reason(leaving_record const& record, std::uint64_t next) {
  std::uint32_t const before = record.stores.load(std::memory_order_acquire);
  if (record.instead_of.load(std::memory_order_acquire) != next) return {};
  circumstance const when = record.when.load(std::memory_order_acquire);
  char text[sizeof record.text] = {};
  for (std::size_t i = 0; i < sizeof text - 1; ++i) {
    text[i] = record.text[i].load(std::memory_order_acquire);
    if (text[i] == '\0') break;
  }
  if (before % 2 != 0 || record.stores.load(std::memory_order_acquire) != before) return {};
  return {when, text};
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
