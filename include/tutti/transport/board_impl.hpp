// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/board.hpp.
#pragma once

#include <algorithm>
#include <cstring>

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
    std::size_t const length = std::min(text.size(), sizeof entry.text - 1);
    std::memcpy(entry.text, text.data(), length);
    entry.text[length] = '\0';
    entry.id.store(id, std::memory_order_release);
    return;
  }
}

TUTTI_INLINE void write_fault(fault_record& record, fault const& f) noexcept {
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

TUTTI_INLINE std::optional<fault> read_fault(fault_record const& record) {
  if (record.state.load(std::memory_order_acquire) != 2) return {};
  return fault{record.code, record.rank, record.peer, record.text};
}

}  // namespace tutti::detail
