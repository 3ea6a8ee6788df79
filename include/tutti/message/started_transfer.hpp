// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a handle and the messages of a communicator share of a send or receive that was started.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <source_location>

#include "tutti/core/wait.hpp"
#include "tutti/execute/transfer.hpp"
#include "tutti/started/call.hpp"

namespace tutti::detail {

// A send or receive that was started or prepared.
class started_transfer final : public pending_call {
 public:
  // What it is comes later.
  explicit started_transfer(pending_calls& queue) : pending_call(queue) {}
  started_transfer(pending_calls& queue, transfer const& t, std::chrono::nanoseconds timeout,
                   std::source_location where)
      : pending_call(&queue, prepared), message(t), limit(timeout), place(where), asked_(t) {}

  using pending_call::begin_now, pending_call::end;
  void restart() noexcept {
    pending_call::restart();
    message = asked_;
    time = countdown(limit);
  }

  transfer message;
  std::chrono::nanoseconds limit{};
  countdown time{limit};
  std::source_location place;

 private:
  transfer const asked_;
};

// One that was started, or, where `call` is null, has ended at once: and what it has got, if it is a receive.
struct begun_transfer {
  std::shared_ptr<started_transfer> call{};
  int source = no_rank, tag = any_tag;
  std::size_t bytes = 0;
};

}  // namespace tutti::detail
