// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library's one exception type: what happened, to which rank, in which call, and what to do about it.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tutti/core/config.hpp"

namespace tutti {

// The kinds of errors. Errors other than bad_argument, buffer_in_use and excluded are thrown on all ranks of the communicator.
enum class error_code {
  bad_argument,   // this rank's own call is wrong; nothing was sent
  mismatch,       // ranks made different calls
  timeout,        // the deadline passed
  rank_lost,      // the process of a peer ended
  rank_left,      // a peer closed its communicator while others still make calls
  system,         // the operating system or a library failed
  buffer_in_use,  // TUTTI_CHECK=buffers: memory of a call in flight was used by another or changed
  revoked,        // a rank has ended the communicator for all: revoke, abort, shrink
  excluded,       // the other ranks have continued without this one: shrink
};

// The name of an error code, such as "rank lost".
[[gnu::cold]] std::string_view name(error_code code);

// The exception of all calls. what() is one line: the cause, the advice, and the rank and call site that throw it.
class error : public std::runtime_error {
 public:
  struct details {
    error_code code{};
    int rank = -1;  // the rank that throws; -1 outside of a communicator
    int peer = -1;  // the rank that caused it, the same at all ranks: also at this rank itself. -1 if it is not known
    std::string what{};     // what happened
    std::string way_out{};  // what to do about it
    std::source_location where{};
  };

  [[gnu::cold]] explicit error(details d);
  [[gnu::cold]] error(error const&);
  error& operator=(error const&) = default;
  [[gnu::cold]] ~error() override;

  error_code code() const noexcept { return details_.code; }
  int rank() const noexcept { return details_.rank; }
  int peer() const noexcept { return details_.peer; }
  std::string const& happened() const noexcept { return details_.what; }
  std::string const& way_out() const noexcept { return details_.way_out; }
  std::source_location const& where() const noexcept { return details_.where; }

  // The same error, thrown by the call at `where`.
  [[gnu::cold]] error in_call(std::source_location where) const;

 private:
  details details_;
};

}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/core/error_impl.hpp"
#endif
