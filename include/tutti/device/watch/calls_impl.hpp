// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/watch/calls.hpp.
#pragma once

#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/watch/calls.hpp"
#include "tutti/device/watch/symmetric_places.hpp"
#include "tutti/fault/call_record.hpp"

namespace tutti::detail {

TUTTI_INLINE std::string recorded_calls::described(int q, std::uint32_t call) const {
  struct device_names {
    device_board const& board;
    std::string name(int r, std::uint32_t id) const { return board.name(r, id); }
  };
  auto words = board_.find(q, call);
  if (!words) return "a call that is no longer on record";
  std::string const places = take_places(*words);
  return describe(*words, device_names{board_}, q) + places;
}

TUTTI_INLINE std::string recorded_calls::state_of(int q) const {
  device_page const& peer = board_.rank(q);
  if (std::uint32_t const call = peer.now.load()) return "in " + described(q, call);
  if (std::uint64_t const called = peer.called.load())
    return join({"at or after call #", called, ", ", described(q, board_.noted(q, called))});
  return "before its first call";
}

TUTTI_INLINE fault recorded_calls::mismatch_with(int q, std::uint32_t own, std::uint32_t theirs) const {
  return {error_code::mismatch, rank_, q,
          join({"ranks disagree: rank ", rank_, " calls ", described(rank_, own), ", rank ", q, " calls ",
                theirs != 0 ? described(q, theirs) : "something else"})};
}

TUTTI_INLINE std::optional<bool> recorded_calls::same_call(std::uint32_t own, int q, std::uint32_t theirs) const {
  auto const a = board_.find(rank_, own), b = board_.find(q, theirs);
  if (!a || !b) return {};
  return fingerprint_of(*a) == fingerprint_of(*b);
}

}  // namespace tutti::detail
