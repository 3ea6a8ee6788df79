// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of core/error.hpp.
#pragma once

#include <utility>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"

namespace tutti {

TUTTI_INLINE std::string_view name(error_code code) {
  switch (code) {
    case error_code::bad_argument: return "bad argument";
    case error_code::mismatch: return "mismatch";
    case error_code::timeout: return "timeout";
    case error_code::rank_lost: return "rank lost";
    case error_code::rank_left: return "rank left";
    case error_code::system: return "system";
    case error_code::buffer_in_use: return "buffer in use";
    case error_code::revoked: return "revoked";
    case error_code::excluded: return "excluded";
  }
  return "?";
}

namespace detail {

TUTTI_INLINE std::string sentence_of(error::details const& d) {
  std::string out = join({"tutti: ", d.what});
  if (d.rank >= 0) append(out, {" [rank ", d.rank, "]"});
  if (d.where.line() != 0) append(out, {" (", d.where.file_name(), ":", d.where.line(), ")"});
  if (!d.way_out.empty()) append(out, {"; ", d.way_out});
  return out;
}

}  // namespace detail

TUTTI_INLINE error::error(details d) : std::runtime_error(detail::sentence_of(d)), details_(std::move(d)) {}
TUTTI_INLINE error::error(error const&) = default;
TUTTI_INLINE error::~error() = default;

TUTTI_INLINE error error::in_call(std::source_location where) const {
  details d = details_;
  d.where = where;
  return error(std::move(d));
}

}  // namespace tutti
