// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The last sends and receives of a rank on a communicator, for its flight record.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "tutti/fault/call_record.hpp"
#include "tutti/fault/transfer.hpp"
#include "tutti/transport/board.hpp"

namespace tutti::detail {

// One thread at a time writes. Any thread may read at the same time, for example one that finds a fault while another
// moves messages.
class message_history {
 public:
  // Numbers transfers in the order in which they start. `place` is the call site as peers know it.
  void begin(transfer& t, std::uint64_t place) noexcept {
    t.number = count_.load(std::memory_order_relaxed) + 1;
    call_record& record = at(t.number);
    write_call(record, t.number, to_words(t), place);
    count_.store(t.number, std::memory_order_release);
  }
  void end(transfer const& t) noexcept {
    call_record& record = at(t.number);
    if (t.number != 0 && record.sequence.load(std::memory_order_relaxed) == t.number)
      record.word[how_it_ended].store(ended_from(t.source), std::memory_order_release);
  }

  std::uint64_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  std::uint64_t first() const noexcept { return count() < records ? 1 : count() - records + 1; }
  // Returns the record if it has not been overwritten. The functions below decode how the message ended.
  std::optional<call_words> find(std::uint64_t number) const noexcept { return read_call(at(number), number); }
  static bool ended(call_words const& words) noexcept { return words[how_it_ended] != 0; }
  // The sender of a message that a receive has completed with.
  static int source(call_words const& words) noexcept { return static_cast<std::int32_t>(words[how_it_ended] >> 32); }

 private:
  static constexpr std::size_t how_it_ended = 5;  // unused by messages on the notice board
  static constexpr std::uint64_t ended_from(int source) noexcept {
    return 1 | static_cast<std::uint64_t>(static_cast<std::uint32_t>(source)) << 32;
  }
  call_record& at(std::uint64_t number) noexcept { return last_[number % records]; }
  call_record const& at(std::uint64_t number) const noexcept { return last_[number % records]; }

  std::array<call_record, records> last_{};
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace tutti::detail
