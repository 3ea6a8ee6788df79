// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one exception of the library: what happened, to whom, in which call, and the way out.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "tutti/core/text.hpp"

namespace tutti {

enum class error_code {
  bad_argument,   // this rank's own call is wrong; nothing was sent
  mismatch,       // ranks called different things
  timeout,        // the deadline passed
  rank_lost,      // a peer's process ended in the middle
  rank_left,      // a peer closed its communicator while others still call
  system,         // the operating system refused something
  buffer_in_use,  // TUTTI_CHECK=buffers: memory of a call that has not ended was used otherwise
  revoked,        // a rank has closed the communicator to all: revoke, abort, shrink
};

constexpr std::string_view name(error_code code) {
  switch (code) {
    case error_code::bad_argument: return "bad argument";
    case error_code::mismatch: return "mismatch";
    case error_code::timeout: return "timeout";
    case error_code::rank_lost: return "rank lost";
    case error_code::rank_left: return "rank left";
    case error_code::system: return "system";
    case error_code::buffer_in_use: return "buffer in use";
    case error_code::revoked: return "revoked";
  }
  return "?";
}

class error : public std::runtime_error {
 public:
  struct details {
    error_code code{};
    int rank = -1;          // who throws; -1 outside of a communicator
    int peer = -1;          // who is to blame; -1 where that is not one other rank
    std::string what{};     // what happened
    std::string way_out{};  // what to do about it
    std::source_location where{};
  };

  explicit error(details d) : std::runtime_error(sentence(d)), details_(std::move(d)) {}

  error_code code() const noexcept { return details_.code; }
  int rank() const noexcept { return details_.rank; }
  int peer() const noexcept { return details_.peer; }
  std::string const& happened() const noexcept { return details_.what; }
  std::string const& way_out() const noexcept { return details_.way_out; }
  std::source_location const& where() const noexcept { return details_.where; }

  // The same, found in a call from there.
  [[gnu::cold]] error in_call(std::source_location where) const {
    details d = details_;
    d.where = where;
    return error(std::move(d));
  }

 private:
  [[gnu::cold]] static std::string sentence(details const& d) {
    std::string out = detail::join({"tutti: ", d.what});
    if (d.rank >= 0) out += detail::join({" [rank ", d.rank, "]"});
    if (d.where.line() != 0) out += detail::join({" (", d.where.file_name(), ":", d.where.line(), ")"});
    if (!d.way_out.empty()) out += detail::join({"; ", d.way_out});
    return out;
  }

  details details_;
};

}  // namespace tutti
