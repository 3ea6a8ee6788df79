// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/nccl/team.hpp.
#pragma once

#include <chrono>
#include <thread>
#include <utility>

#include "tutti/device/nccl/team.hpp"

namespace tutti::detail::nccl {

TUTTI_INLINE result team::join(library const& from, unique_id const& id, int ranks, int rank) {
  std::lock_guard const lock(guard_);
  from_ = from;
  settings how;
  return from.api.init_rank(&joined_, ranks, id, rank, &how);
}

TUTTI_INLINE result team::state() noexcept {
  std::lock_guard const lock(guard_);
  if (joined_ == nullptr) return result::usage;
  result out = result::success;
  result const asked = from_->api.get_async_error(joined_, &out);
  return asked == result::success ? out : asked;
}

TUTTI_INLINE std::string team::text_of(result what) {
  std::lock_guard const lock(guard_);
  return from_->text_of(what, joined_);
}

TUTTI_INLINE void team::abort() noexcept {
  std::lock_guard const lock(guard_);
  if (joined_ != nullptr) from_->api.abort(std::exchange(joined_, nullptr));
}

TUTTI_INLINE void team::leave(deadline until) noexcept {
  {
    std::lock_guard const lock(guard_);
    if (joined_ == nullptr) return;
    from_->api.finalize(joined_);
  }
  while (state() == result::in_progress && !until.passed()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  if (state() != result::success) return abort();
  std::lock_guard const lock(guard_);
  if (joined_ != nullptr) from_->api.destroy(std::exchange(joined_, nullptr));
}

}  // namespace tutti::detail::nccl
