// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "errors.hpp"

#include <string>

#include "tutti/core/text.hpp"

namespace tutti_torch {
namespace {

std::string way_out(tutti::error const& e) {
  static constexpr char closed[] = "; this group is closed: create another one, or let torchrun restart the job";
  using enum tutti::error_code;
  switch (e.code()) {
    case mismatch:
      return std::string(
                 "make the same calls in the same order on all ranks, with tensors of sizes and types that match") +
             closed;
    case timeout:
      return std::string(
                 "find out what keeps the others, or pass a longer timeout to init_process_group or new_group") +
             closed;
    case rank_lost: return std::string("check the output of the rank that ended") + closed;
    case rank_left:
      return std::string("let all ranks make the same calls before they destroy the group or exit") + closed;
    case revoked: return std::string("check the output of the rank that ended the calls") + closed;
    case buffer_in_use: return "wait() for the earlier call first, or pass another tensor";
    default: return e.way_out();
  }
}

}  // namespace

c10::DistBackendError backend_error(tutti::error const& e) {
  std::string const at = e.rank() < 0 ? "" : tutti::detail::join({" [rank ", e.rank(), "]"});
  return {{__func__, __FILE__, __LINE__}, tutti::detail::join({"tutti: ", e.happened(), at, "; ", way_out(e)})};
}

}  // namespace tutti_torch
