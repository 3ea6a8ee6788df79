// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Programs whose threads are ranks of loopback.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "explore/explore.hpp"
#include "explore/fields.hpp"
#include "tutti/transport/threads/loopback.hpp"

namespace tutti::testing::explore {

// A group of which only the first ranks run. In a large group a channel has few slots.
class ranks {
 public:
  static constexpr int with_four_slots = 33;
  static_assert(detail::slots_of(with_four_slots, 0) == 4);

  explicit ranks(int running, int all, int tracks = 1)
      : running_(running), hub_(std::make_shared<loopback::hub>(all, tracks)) {
    // As if there were a core for each: otherwise packets have so many sets on some machines that no test would use one twice.
    for (std::uint64_t& some : memory().rank(0).cores) some = ~std::uint64_t{};
    for (int r = 0; r < running; ++r) fresh_.emplace_back(hub_, r);
  }

  loopback& operator[](int rank) { return now_[static_cast<std::size_t>(rank)]; }
  detail::segment const& memory() const { return hub_->memory(); }

  // `arrays`: memory of ranks that their peers read. `reset` is called before each execution.
  program running(std::function<void(int)> body, std::function<void()> reset = {},
                  std::vector<std::span<std::byte>> arrays = {}) {
    arrays.emplace_back(memory().base(), memory().bytes());
    return {.threads = running_,
            .shared = std::move(arrays),
            .set_up =
                [this, reset = std::move(reset)] {
                  now_ = fresh_;
                  if (reset) reset();
                },
            .body = std::move(body),
            .name = [this](void const* address) { return name_in(memory(), hub_->ranks(), hub_->tracks(), address); }};
  }

 private:
  int running_;
  std::shared_ptr<loopback::hub> hub_;
  std::vector<loopback> fresh_, now_;  // as they begin an execution, and those of this one
};

}  // namespace tutti::testing::explore
