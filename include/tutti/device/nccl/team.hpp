// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank's part of a communicator of NCCL. It never blocks, so that a rank that waits for others can look for faults meanwhile.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "tutti/core/config.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/nccl/library.hpp"

namespace tutti::detail::nccl {

// One thread may give calls while another looks at the state or aborts. The device must be the current one of the thread that joins or
// gives calls.
class team {
 public:
  team() = default;
  team(team const&) = delete;
  team& operator=(team const&) = delete;
  [[gnu::cold]] ~team() { abort(); }

  // Begins to join the others, which state() completes.
  [[gnu::cold]] result join(library const& from, unique_id const& id, int ranks, int rank);

  // in_progress until NCCL has joined the others, or given its last calls to their streams; success; or why it cannot go on,
  // also after abort().
  result state() noexcept;
  [[gnu::cold]] std::string text_of(result what);

  // Makes the calls f(functions, communicator), which returns the first result that is neither success nor in_progress, as one
  // group. They are on their stream once the state is success.
  template <class F>
  result give(F const& f) {
    std::lock_guard const lock(guard_);
    if (joined_ == nullptr) return result::usage;
    if (result const r = from_->api.group_start(); r != result::success) return r;
    result const made = f(from_->api, joined_);
    result const ended = from_->api.group_end();
    return made == result::success || made == result::in_progress ? ended : made;
  }

  // Ends the calls of this rank that are in flight. Those of the others may wait until they abort too.
  [[gnu::cold]] void abort() noexcept;
  // Ends the communicator after its calls, which all ranks do; aborts it if that takes too long.
  [[gnu::cold]] void leave(deadline until) noexcept;

 private:
  std::mutex guard_;
  std::optional<library> from_;
  communicator* joined_ = nullptr;
};

}  // namespace tutti::detail::nccl

#if !defined(TUTTI_COMPILED)
#include "tutti/device/nccl/team_impl.hpp"
#endif
