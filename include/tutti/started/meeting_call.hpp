// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A call in which all ranks meet, without data: it comes before work that ranks do by other means, such as copies on devices.
#pragma once

#include <memory>
#include <optional>

#include "tutti/call/communicator.hpp"
#include "tutti/call/perform.hpp"
#include "tutti/execute/roll_call.hpp"
#include "tutti/started/collective_queue.hpp"
#include "tutti/started/work.hpp"

namespace tutti::detail {

template <class Transport>
class meeting_call final : public queued_call<Transport> {
 public:
  meeting_call(engine<Transport>& on, call_terms const& terms)
      : queued_call<Transport>(collective_queue<Transport>::of(on), on), terms_(terms) {
    terms_.asked.started = true;
  }

 private:
  call_terms const& terms() const noexcept override { return terms_; }
  void begin(begun_call<Transport> const& begun) override {
    meeting_.emplace(this->engine_.transport(), begun.tag(), false);
  }
  progress poll() noexcept override { return meeting_->poll(); }
  protocol_violation const& found() const noexcept override { return meeting_->found(); }

  call_terms terms_;
  std::optional<roll_call<Transport>> meeting_;
};
template <class Transport>
work start_meeting(engine<Transport>& on, call_terms const& terms) {
  auto const call = std::make_shared<meeting_call<Transport>>(on, terms);
  collective_queue<Transport>::start(call);
  return work(call);
}
template <class Transport>
work start_meeting(communicator<Transport>& comm, call_terms const& terms) {
  if (auto* const node = node_for<automatic>(comm, terms.asked.algorithm, terms.where))
    return start_meeting(node->engine(), terms);
  return start_meeting(comm.engine(), terms);
}

// Ends the calls of all ranks because this one cannot complete its own.
template <class Transport>
[[gnu::cold]] void give_up_host_calls(communicator<Transport>& comm) noexcept {
  if (comm.size() == 1) return;
  if constexpr (has_levels<Transport>)
    if (auto* const node = comm.engine().levels->only_node()) return node->engine().give_up();
  comm.engine().give_up();
}

}  // namespace tutti::detail
