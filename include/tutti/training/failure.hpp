// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the other ranks are told when something fails on one, and how it leaves what it has in flight.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "tutti/call/communicator.hpp"
#include "tutti/call/survive.hpp"
#include "tutti/core/error.hpp"
#include "tutti/started/work.hpp"

namespace tutti::detail {

// While an exception is being handled: what has failed, and why, if that is known.
[[gnu::cold]] inline std::string with_reason(std::string what) noexcept {
  try {
    try {
      throw;
    } catch (error const& e) {
      what += ": " + e.happened();
    } catch (std::exception const& e) {
      what += std::string(": ") + e.what();
    }
  } catch (...) {
  }  // neither says why, or there is no memory for it
  return what;
}

// While an exception is being handled: whether it reports that a rank is gone.
[[gnu::cold]] inline bool reports_loss() noexcept {
  try {
    throw;
  } catch (error const& e) {
    return e.code() == error_code::rank_lost || e.code() == error_code::rank_left;
  } catch (...) {
    return false;
  }
}

// While an exception is being handled: the loss of a rank that it reports, which other communicators of the same ranks should
// report, too.
[[gnu::cold]] inline std::optional<error> reported_loss() noexcept {
  try {
    throw;
  } catch (error const& e) {
    return e.peer() >= 0 && reports_loss() ? std::optional(e) : std::nullopt;
  } catch (...) {
    return {};
  }
}

// Ends all calls of all ranks on a communicator, without an exception. `why`: a text, or the loss of a rank. Nothing happens to a
// communicator that has a fault already.
template <class Transport, class Why>
void revoke_quietly(communicator<Transport>& comm, Why const& why) noexcept {
  if (comm.size() == 1) return;
  try {
    comm.revoke(why);
  } catch (...) {
  }  // a forked process may not touch it
}

// Waits until this is not in flight, whether or not it succeeds: an error has been thrown already, or is on its way.
inline void wait_quietly(work& w) noexcept {
  try {
    w.wait();
  } catch (...) {
  }
}

}  // namespace tutti::detail
