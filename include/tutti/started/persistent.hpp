// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// persistent: a call that is prepared once and started as often as one likes.
#pragma once

#include <memory>
#include <source_location>
#include <utility>

#include "tutti/started/work.hpp"

namespace tutti {

// What a collective or message on tutti::prepared(comm) returns: the work of its last start. Copies are handles of one
// operation. It keeps its arguments: the same memory is read and written at every start, which must be there from a start to
// its end, as that of any work. Operations must not be started when their communicator has gone.
class persistent : public work {
 public:
  using starter = void (*)(std::shared_ptr<detail::pending_call> const& call);

  persistent() = default;  // of nothing, which has always ended
  persistent(std::shared_ptr<detail::pending_call> call, starter how) : work(std::move(call)), start_(how) {}

  // All ranks start collectives in the order of their other calls; it counts as such a call, as one that is started by
  // tutti::async. Nothing is allocated from the second start on, but by the MPI if there is one; and a message that comes
  // before its receive was started, is kept in memory of its own.
  // Throws error: bad_argument where nobody has seen the end of the start before, by wait, test or done, or by then; a
  // message's start also the fault that the communicator has.
  void start(std::source_location where = std::source_location::current()) {
    if (!call()) return;
    expect_seen(where);
    call()->start_checked([&] { start_(call()); });
  }

 private:
  starter start_ = nullptr;
};

}  // namespace tutti
