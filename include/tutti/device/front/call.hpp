// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The options of collectives on device memory, and a checked call.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <ranges>
#include <source_location>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tutti/algorithm/registry.hpp"
#include "tutti/call/noncontiguous.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/execute/layout.hpp"
#include "tutti/execute/plan.hpp"
#include "tutti/reduce/types.hpp"

namespace tutti {

namespace detail {

// An array that a device can read: device_array, thrust::device_vector, std::span of device memory.
template <class B>
concept device_buffer = requires(B& b) {
  { b.size() } -> std::convertible_to<std::size_t>;
  *b.data();
};

// Whether there may be gaps between its elements. Vectors of Thrust in device memory, whose data() is no pointer, have none.
template <class B>
inline constexpr bool may_have_gaps = noncontiguous_array<B> && std::is_pointer_v<decltype(std::declval<B&>().data())>;
template <eigen_like B>
inline constexpr bool may_have_gaps<B> =
    !requires { requires B::IsVectorAtCompileTime && B::InnerStrideAtCompileTime == 1; };

}  // namespace detail

// The address of its first element.
template <detail::device_buffer B>
auto* device_data(B& b) {
  static_assert(!detail::may_have_gaps<B>,
                "arrays with gaps between their elements are for host memory; copy the elements first, or pass "
                "std::span(data, count) if there are no gaps");
  if constexpr (std::is_pointer_v<decltype(b.data())>) return b.data();
  else return b.data().get();
}
namespace detail {

template <class B>
using device_value = std::remove_cv_t<std::remove_pointer_t<decltype(device_data(std::declval<B&>()))>>;

// A list of such arrays, rather than an array of elements that look like one, such as std::array<float, 3>.
template <class L>
concept device_list = std::ranges::forward_range<L> && !element<std::ranges::range_value_t<L>> &&
                      device_buffer<std::remove_reference_t<std::ranges::range_reference_t<L>>>;

}  // namespace detail

// Options of one call on a device. Each call is ordered on its stream. Calls of cuda_local and cuda_ipc return before
// they have run; those of cuda_staged return when the last slice has arrived.
//
// stream      a cudaStream_t or cuda::stream_ref; by default, CUDA's default stream, or that of `on`
// algorithm   the same on all ranks; an unsupported one throws bad_argument before anything is launched
// protocol    with a named algorithm: `packet` for small messages by one_shot (data and flag in one store), or `staged`
// timeout     how long to wait for other ranks; 0: TUTTI_TIMEOUT. Calls of cuda_local start all ranks together and
//             ignore it
// symmetric   for cuda_ipc, a promise that all ranks make or none: the input is at the same place in buffers that they
//             have registered together, and the output too, or on no rank. Peers then read it in place
//
//   tutti::all_reduce(ranks, gradient, gradient, tutti::mean{}, {.stream = stream});
template <detail::device D>
struct device_options {
  detail::passed_stream<D> stream{};
  algorithm_id algorithm = algorithm_id::automatic;
  tutti::protocol protocol = tutti::protocol::automatic;
  std::chrono::nanoseconds timeout{0};
  bool symmetric = false;
};

namespace detail {

// One rank's part of a collective, after all checks that a rank can do alone. Blocks are counted in elements In and
// Out, which are words if the collective only moves values.
template <device D, class In, class Out>
struct device_call {
  request what;           // in the program's elements; the same at all ranks
  std::string_view type;  // of the program's elements
  In const* in;           // null if this rank passes none
  layout given{};         // at(0, q) of it is for rank q
  Out* out;               // null if this rank receives none
  layout got{};           // at(0, q) of it comes from rank q
  device_options<D> how{};
  std::source_location where{};
};

}  // namespace detail
}  // namespace tutti
