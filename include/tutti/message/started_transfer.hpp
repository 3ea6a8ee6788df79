// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state of a started or prepared send or receive, shared by its handle and the exchange of its communicator.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <source_location>
#include <utility>

#include "tutti/core/wait.hpp"
#include "tutti/fault/transfer.hpp"
#include "tutti/message/gaps.hpp"
#include "tutti/started/call.hpp"
#include "tutti/started/tick_clock.hpp"

namespace tutti::detail {

class started_transfer final : public pending_call {
 public:
  // The caller sets `message`, and calls begin_now() once it is in flight.
  explicit started_transfer(pending_calls& queue) : pending_call(queue, not_begun) {}
  started_transfer(pending_calls& queue, transfer const& t, shared_gaps gaps, std::chrono::nanoseconds timeout,
                   std::source_location where)
      : pending_call(&queue, prepared), message(t), limit(timeout), place(where), initial_(t), gaps_(std::move(gaps)) {}

  using pending_call::begin_now;
  void restart() {
    if (gaps_) gaps_->begin(initial_);
    pending_call::restart();
    message = initial_;
    time = countdown(limit);
  }
  void end(std::exception_ptr thrown, tick_clock::ticks when = tick_clock::now()) noexcept {
    try {
      if (gaps_ && !thrown) gaps_->end(message);
    } catch (...) {  // of a view of the program
      thrown = std::current_exception();
    }
    pending_call::end(std::move(thrown), when);
  }

  transfer message;
  std::chrono::nanoseconds limit{};
  countdown time{limit};
  std::source_location place;

 private:
  transfer const initial_;
  shared_gaps gaps_;
};

// The outcome of starting a transfer. A null `call` means that it has completed; the rest is then the result of a receive.
struct begun_transfer {
  std::shared_ptr<started_transfer> call{};
  int source = no_rank, tag = any_tag;
  std::size_t bytes = 0;
};

}  // namespace tutti::detail
