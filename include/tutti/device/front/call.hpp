// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What callers of collectives on memory of a device pass, and what of it reaches those that carry them out.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <source_location>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tutti/algorithm/registry.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/execute/layout.hpp"
#include "tutti/execute/plan.hpp"

namespace tutti {

namespace detail {

// An array that a device can read: device_array, thrust::device_vector, std::span of device memory.
template <class B>
concept device_buffer = requires(B& b) {
  { b.size() } -> std::convertible_to<std::size_t>;
  *b.data();
};

}  // namespace detail

// The address of its first element.
template <detail::device_buffer B>
auto* device_data(B& b) {
  if constexpr (std::is_pointer_v<decltype(b.data())>) return b.data();
  else return b.data().get();
}
namespace detail {

template <class B>
using device_value = std::remove_cv_t<std::remove_pointer_t<decltype(device_data(std::declval<B&>()))>>;

}  // namespace detail

// What a caller may ask of one call on a device. All calls are ordered on their stream. Those of cuda_local and cuda_ipc return
// before they have run; those of cuda_staged when the last slice has come.
//
// algorithm   the same on all ranks; what cannot be had throws bad_argument before anything is launched
// protocol    with a named algorithm: `packet` for one_shot of what is small (data and flag in one store), `staged`
// timeout     of waiting for other ranks; 0: TUTTI_TIMEOUT. Ranks of a cuda_local come together, and have none
// symmetric   a promise of all ranks alike, to cuda_ipc: that the input lies at the same place of buffers that they have
//             registered together, and the output too, or on none of them. Then peers read it there
//
//   tutti::all_reduce(ranks, gradient, gradient, tutti::mean{}, {.stream = stream});
template <detail::device D>
struct device_options {
  detail::stream_of<D> stream{};
  algorithm_id algorithm = algorithm_id::automatic;
  tutti::protocol protocol = tutti::protocol::automatic;
  std::chrono::nanoseconds timeout{0};
  bool symmetric = false;
};

namespace detail {

// One rank's part of a collective, checked as far as a rank can alone. Blocks are counted in elements In and Out, which are
// words where a collective only moves.
template <device D, class In, class Out>
struct device_call {
  request what;           // what all ranks must pass alike, in the program's elements
  std::string_view type;  // the program's
  In const* in;           // null where this rank passes none
  layout given{};         // at(0, q) of it is for rank q
  Out* out;               // null where this rank gets none
  layout got{};           // at(0, q) of it comes from rank q
  device_options<D> how{};
  std::source_location where{};
};

}  // namespace detail
}  // namespace tutti
