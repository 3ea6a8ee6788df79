// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The calls that ranks have recorded on their board: compares them, and describes them in messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/watch/board.hpp"
#include "tutti/device/watch/symmetric_places.hpp"
#include "tutti/fault/call_record.hpp"

namespace tutti::detail {

// As rank `rank` sees them.
class recorded_calls {
 public:
  recorded_calls(device_board const& board, int rank) : board_{board}, rank_{rank} {}

  std::string described(int q, std::uint32_t call) const {
    auto words = board_.find(q, call);
    if (!words) return "a call that is no longer on record";
    std::string const places = take_places(*words);
    return describe(*words, device_names{board_}, q) + places;
  }
  // "in all_reduce of ..." or "after broadcast of ..."
  std::string state_of(int q) const {
    device_page const& peer = board_.rank(q);
    if (std::uint32_t const call = peer.now.load()) return "in " + described(q, call);
    if (std::uint64_t const called = peer.called.load())
      return join({"at or after call #", called, ", ", described(q, board_.noted(q, called))});
    return "before its first call";
  }
  fault mismatch_with(int q, std::uint32_t own, std::uint32_t theirs) const {
    return {error_code::mismatch, rank_, q,
            join({"ranks disagree: rank ", rank_, " calls ", described(rank_, own), ", rank ", q, " calls ",
                  theirs != 0 ? described(q, theirs) : "something else"})};
  }
  // Whether two ranks make the same call in all that they must agree on; empty if that is no longer known.
  std::optional<bool> same_call(std::uint32_t own, int q, std::uint32_t theirs) const {
    auto const a = board_.find(rank_, own), b = board_.find(q, theirs);
    if (!a || !b) return {};
    return fingerprint_of(*a) == fingerprint_of(*b);
  }

 private:
  struct device_names {
    device_board const& board;
    std::string name(int q, std::uint32_t id) const { return board.name(q, id); }
  };

  device_board board_;
  int rank_;
};

}  // namespace tutti::detail
