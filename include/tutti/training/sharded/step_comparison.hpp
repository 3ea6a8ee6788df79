// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether all ranks have gathered the same units in a step, and end it with the same scale.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <source_location>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/core/error.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/started/asynchronous.hpp"
#include "tutti/started/work.hpp"
#include "tutti/training/failure.hpp"

namespace tutti::detail {

// Ranks that have gathered different units of the same size have got parts of both; with other scales, each would change its part
// of the model in another way. An all_reduce of 16 bytes finds the largest and the smallest hash of both.
class step_comparison {
 public:
  void note_gather(std::size_t unit) { gathered_ = (gathered_ + unit + 1) * factor; }  // depends on the order

  // Collective, at the end of a step.
  template <class Transport>
  void begin(communicator<Transport>& comm, double scale, std::source_location where) {
    auto const bits = std::bit_cast<std::uint64_t>(scale + 0.0);  // those of 0 also if it is -0
    std::uint32_t const gathers = upper(gathered_), scales = upper((bits + 1) * factor);
    extremes_ = {gathers, ~gathers, scales, ~scales};
    exchange_ = all_reduce(async(comm), extremes_, max{}, {}, where);
  }
  // Waits for the result. Throws mismatch on all ranks if gathers since the last comparison differ, or scales.
  void expect_same(int rank, std::source_location where) {
    exchange_.wait();
    if (differs(0))
      fail(rank,
           "ranks have gathered different units, or in different orders, since the last step, so their parameters "
           "were wrong",
           "gather the same units in the same order on all ranks, and release them in the same order", where);
    if (differs(2))
      fail(rank,
           "ranks have passed different values of `scale` to step(), so each would change its part of the model in its "
           "own way",
           "pass the same value on all ranks, such as one that depends on gradient_norm()", where);
    gathered_ = 0;
  }
  // Waits until nothing is in flight, whether or not it succeeds.
  void abandon() noexcept { wait_quietly(exchange_); }

 private:
  static constexpr std::uint64_t factor = 0x9E3779B97F4A7C15;

  static std::uint32_t upper(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }
  bool differs(std::size_t i) const { return extremes_[i] != ~extremes_[i + 1]; }  // the largest is not the smallest
  [[noreturn, gnu::cold]] static void fail(int rank, char const* what, char const* way_out,
                                           std::source_location where) {
    throw error({.code = error_code::mismatch, .rank = rank, .what = what, .way_out = way_out, .where = where});
  }

  std::uint64_t gathered_ = 0;  // a hash of the gathers since the last step
  std::array<std::uint32_t, 4> extremes_{};
  work exchange_;
};

}  // namespace tutti::detail
