// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The last sends and receives of a rank on a communicator, for its flight record.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>

#include "tutti/execute/transfer.hpp"
#include "tutti/fault/call_record.hpp"
#include "tutti/transport/board.hpp"

namespace tutti::detail {

// Written by one thread at a time. Any may read meanwhile, also one that finds a fault while another moves messages.
class message_history {
 public:
  // Transfers are numbered in the order in which they were started.
  void begin(transfer& t, std::source_location where) noexcept {
    t.number = count_.load(std::memory_order_relaxed) + 1;
    call_record& record = at(t.number);
    write_call(record, t.number, at_place(to_words(t), to_word(where)));
    count_.store(t.number, std::memory_order_release);
  }
  void end(transfer const& t) noexcept {
    call_record& record = at(t.number);
    if (t.number != 0 && record.sequence.load(std::memory_order_relaxed) == t.number)
      record.word[how_it_ended].store(ended_from(t.source), std::memory_order_release);
  }

  std::uint64_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  std::uint64_t first() const noexcept { return count() < records ? 1 : count() - records + 1; }
  // If it is still there; what it says of its end and its place is for the functions below.
  std::optional<call_words> find(std::uint64_t number) const noexcept { return read_call(at(number), number); }
  static std::source_location place(call_words const& words) noexcept { return place_of(words[place_word]); }
  static bool ended(call_words const& words) noexcept { return words[how_it_ended] != 0; }
  // Of a receive that has ended: who sent it.
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
