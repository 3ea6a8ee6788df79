// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The hooks that --hook can name.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <variant>

#include <tutti/training.hpp>

using hook_variant =
    std::variant<tutti::training::average, tutti::training::cast_to<tutti::bfloat16>,
                 tutti::training::cast_to<tutti::half>, tutti::training::cast_to<tutti::float8_e5m2>,
                 tutti::training::error_feedback<tutti::training::top_k>,
                 tutti::training::error_feedback<tutti::training::eight_bit_blocks>,
                 tutti::training::error_feedback<tutti::training::one_bit_signs>, tutti::training::power_sgd>;

// One type for all hooks, so that the training is compiled once.
struct chosen_hook {
  hook_variant chosen;

  template <class Transport>
  tutti::work operator()(tutti::training::bucket<float> const& some, tutti::communicator<Transport>& comm) {
    return std::visit([&](auto& hook) { return hook(some, comm); }, chosen);
  }
  template <class Transport>
  tutti::work second_round(tutti::training::bucket<float> const& some, tutti::communicator<Transport>& comm) {
    auto* const low_rank = std::get_if<tutti::training::power_sgd>(&chosen);
    return low_rank == nullptr ? tutti::work() : low_rank->second_round(some, comm);
  }
  std::size_t message_bytes(tutti::training::bucket<float> const& some) const {
    return std::visit([&](auto const& hook) { return tutti::training::message_bytes(hook, some); }, chosen);
  }
};

inline std::map<std::string, hook_variant> named_hooks() {
  using namespace tutti::training;
  return {{"none", average{}},
          {"bf16", cast_to<tutti::bfloat16>{}},
          {"half", cast_to<tutti::half>{}},
          {"float8", cast_to<tutti::float8_e5m2>{}},
          {"top_k", error_feedback(top_k{.share = 0.05})},
          {"eight_bit", error_feedback(eight_bit_blocks{})},
          {"one_bit", error_feedback(one_bit_signs{})},
          {"power_sgd", power_sgd({.rank = 2})}};
}
