// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of fault/recorder.hpp.
#pragma once

#include <csignal>

#include "tutti/fault/recorder.hpp"

namespace tutti::detail {

TUTTI_INLINE recorder::recorder(settings const& s, int rank, int ranks, std::string_view transport, bool in_one_process)
    : settings_(s), rank_(rank), ranks_(ranks), transport_(transport) {
  if (ranks == 1) return;
  at_ = next_place(rank, in_one_process);
  if (s.record_signal > 0)
    std::signal(s.record_signal, [](int) { detail::record_requests.fetch_add(1, std::memory_order_relaxed); });
  std::string title = join({"rank ", rank, " of ", ranks, " over ", transport});
  if (s.log >= log_level::info) write_log(at_, join({"is ", title}));
  if (observer::wanted(s)) observer_ = std::make_unique<observer>(s, at_, std::move(title));
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
