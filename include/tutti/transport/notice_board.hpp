// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The concept of a notice board, which every transport has: there ranks learn of each other's calls and faults.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tutti/transport/notice.hpp"

namespace tutti::detail {

// A named type, because nvcc rejects lambdas in requirements.
using bool_function = bool (*)();

// Where each rank records its current call, reads those of its peers, and reports the first fault; see transport/board.hpp.
template <class T>
concept notice_board =
    requires(T t, T const c, int rank, std::uint64_t sequence, call_words const& call, std::uint64_t site,
             std::uint32_t id, std::string_view text, circumstance when, fault const& f, bool_function decided) {
      { c.identity() } noexcept -> std::same_as<std::uint64_t>;  // of the group of ranks, random
      { t.begin(sequence, call, site) } noexcept;
      { t.finish(sequence) } noexcept;
      { c.called(rank) } noexcept -> std::same_as<std::uint64_t>;
      { c.finished(rank) } noexcept -> std::same_as<std::uint64_t>;
      { c.find(rank, sequence) } -> std::same_as<std::optional<call_words>>;
      { t.set_awaited(call) } noexcept;
      { t.clear_awaited() } noexcept;
      { c.awaited(rank) } noexcept -> std::same_as<std::optional<call_words>>;
      { t.introduce(id, text) } noexcept;
      { c.name(rank, id) } -> std::same_as<std::string>;
      { t.explain_leaving(when, text) } noexcept;                   // should this rank leave before its next call
      { c.reason_to_leave(rank) } -> std::same_as<leaving_reason>;  // of a rank that has left or ended
      { t.raise(f) } noexcept;
      { c.faulty() } noexcept -> std::same_as<bool>;
      { t.acknowledge_fault(decided) } noexcept;
      { c.find_fault() } -> std::same_as<std::optional<fault>>;
    };

}  // namespace tutti::detail
