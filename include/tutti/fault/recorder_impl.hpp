// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of fault/recorder.hpp.
#pragma once

#include <csignal>

#include "tutti/core/text.hpp"
#include "tutti/fault/recorder.hpp"

namespace tutti::detail {

TUTTI_INLINE recorder::recorder(settings const& s, int rank, int ranks, std::string_view transport)
    : settings_(s), rank_(rank), ranks_(ranks), transport_(transport) {
  if (ranks == 1) return;
  at_ = detail::next_place(rank);
  if (detail::observer::wanted(s))
    observer_ = std::make_unique<detail::observer>(s, at_, join({"rank ", rank, " of ", ranks, " over ", transport}));
  if (s.record_signal > 0)
    std::signal(s.record_signal, [](int) { detail::record_requests.fetch_add(1, std::memory_order_relaxed); });
  if (s.log >= log_level::info) detail::write_log(at_, join({"is rank ", rank, " of ", ranks, " over ", transport}));
}

TUTTI_INLINE recorder::~recorder() = default;

TUTTI_INLINE call_statistics recorder::statistics(collective what) const {
  return observer_ ? observer_->of(what) : call_statistics{};
}

TUTTI_INLINE bool recorder::requested() noexcept {
  int const now = detail::record_requests.load(std::memory_order_relaxed);
  return requests_.exchange(now, std::memory_order_relaxed) != now;
}

}  // namespace tutti::detail
