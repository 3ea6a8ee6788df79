// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The data path on a device: a grid combines N sources into M destinations in one pass, with prologue and epilogue.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>

#include "tutti/core/error.hpp"
#include "tutti/core/is_a.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/kernel/access.hpp"
#include "tutti/device/kernel/combining.hpp"
#include "tutti/device/kernel/for_device.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/reduce/combine.hpp"
#include "tutti/reduce/complex.hpp"
#include "tutti/reduce/fused.hpp"

namespace tutti {

namespace detail {

// The limits of one pass. Sources and destinations are kernel parameters, of which every version of CUDA accepts 4 KiB.
inline constexpr int max_sources = 256;
inline constexpr int max_destinations = 64;

// Sources larger than a pointer take more of the kernel parameters.
template <class Source>
inline constexpr int max_sources_like = std::min<int>(max_sources, 2048 / sizeof(Source));

// The kernel parameters of one pass. Common fan-ins are compiled as constants.
template <int FanIn, class Source, class Out, class Fused>
struct combine_pass {
  Source sources[FanIn > 0 ? FanIn : max_sources_like<Source>];
  Out* destinations[FanIn > 0 ? 8 : max_destinations];
  int source_count, destination_count;
  std::size_t n;
  Fused how;
  bool past_first_cache;

  static constexpr int turns =
      arrays_of<Fused> > 0 ? 1 : turns_at_once<FanIn, device_pack<std::iter_value_t<Source>, Out>>;

  template <cooperating_group Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group) const {
    auto const from = [this](int k) { return sources[k]; };
    auto const to = [this](int k) { return destinations[k]; };
    combining<FanIn, decltype(from), decltype(to), Fused, true>{from, source_count,    to, destination_count, n,
                                                                how,  past_first_cache}(group);
  }
};

template <int FanIn, device D, class Source, class Out, class Op, class Before, class After>
void launch_pass(D const& on, stream_of<D> stream, std::span<Source const> sources, std::span<Out* const> destinations,
                 std::size_t n, fused<Op, Before, After> const& how) {
  using source = decltype(to_device_form<Op>(std::declval<Source>()));
  using out = std::remove_pointer_t<decltype(to_device_form<Op>(std::declval<Out*>()))>;
  combine_pass<FanIn, source, out, fused<Op, Before, After>> pass{
      .sources = {},
      .destinations = {},
      .source_count = static_cast<int>(sources.size()),
      .destination_count = static_cast<int>(destinations.size()),
      .n = n,
      .how = how,
      .past_first_cache = exceeds_cache(on, n * sizeof(out), sources.size() + destinations.size())};
  for (std::size_t k = 0; k < sources.size(); ++k) pass.sources[k] = to_device_form<Op>(sources[k]);
  for (std::size_t k = 0; k < destinations.size(); ++k) pass.destinations[k] = to_device_form<Op>(destinations[k]);
  on.launch(stream, n / device_pack<std::iter_value_t<source>, out> + 1, pass);
}

// A pass with kernels for these fan-ins, and one for all others.
template <int... FanIns, device D, class Source, class Out, class How>
void launch_pass_for(D const& on, stream_of<D> stream, std::span<Source const> sources,
                     std::span<Out* const> destinations, std::size_t n, How const& how) {
  if constexpr (!is_a<How, fused>) {
    launch_pass_for<FanIns...>(on, stream, sources, destinations, n, fused<How>{how});
  } else {
    if (n == 0) return;
    bool launched = false;
    auto const launch_if = [&]<int FanIn>(std::integral_constant<int, FanIn>) {
      launched = sources.size() == std::size_t{FanIn};
      if (launched) launch_pass<FanIn>(on, stream, sources, destinations, n, how);
      return launched;
    };
    if (destinations.size() <= 8) static_cast<void>((launch_if(std::integral_constant<int, FanIns>{}) || ...));
    if (!launched) launch_pass<0>(on, stream, sources, destinations, n, how);
  }
}

inline void expect_number(char const* what, std::size_t count, std::size_t least, std::size_t most) {
  if (count >= least && count <= most) return;
  throw error({.code = error_code::bad_argument,
               .what = join({"cuda_combine was given ", count, " ", what}),
               .way_out = join({"pass ", least, " to ", most, ", or make several passes"})});
}

// A source of elements: a pointer, which is read in packs, or an object whose source[i] is element i, such as a fancy iterator of
// Thrust. (It need not be trivially copyable: before CUDA 13 those have user-defined copy constructors.)
template <class S>
concept device_source = std::is_trivially_destructible_v<S> && std::default_initializable<S> && std::copyable<S> &&
                        element<std::iter_value_t<S>> && requires(S const& source, std::ptrdiff_t i) {
                          { source[i] } -> std::convertible_to<std::iter_value_t<S>>;
                        };
static_assert(device_source<float const*>);

}  // namespace detail

// Combines n elements of all sources and stores the result to all destinations, ordered on `stream`.
//
//   how        an operation, or fused{operation, prologue, epilogue}; op.prepare and op.finish are not called, because they
//              apply to the ranks of a collective
//   order      element i is op(...op(op(s0[i], s1[i]), s2[i])..., sk[i]), after the prologue on each, in the accumulator type of
//              the sources; then the epilogue; then rounded once to the type of the destinations
//   sources    1 to 256 pointers to memory that the device can read, or other sources that fit into 2 KiB; aliasing as for
//              `combine`
//   destinations  0 to 64; 0 only if an epilogue updates arrays
//   bits       those of `combine` on the host, except for NaNs, and for operations that multiply and add, which device compilers
//              fuse unless told not to (nvcc: -fmad=false)
//   throws     error: bad_argument, system. `wait` or a later call reports errors of the device itself
//
// Fastest if all arrays start at the same address modulo 16 bytes. Otherwise sources are loaded in packs of up to 16 bytes and
// shifted, and results are stored in packs where the destination starts as the first one does; other destinations, and all
// accesses if arrays of an epilogue start differently, or a source that does is a destination too, are single elements.
template <detail::device D, detail::device_source Source, element Out, std::copy_constructible How>
void cuda_combine(D const& on, detail::stream_of<D> stream, std::span<Source const> sources,
                  std::span<Out* const> destinations, std::size_t n, How const& how) {
  if constexpr (!detail::is_a<How, fused>) {
    cuda_combine(on, stream, sources, destinations, n, fused<How>{how});
  } else {
    detail::expect_usable_on_devices<How, std::iter_value_t<Source>, Out>();
    constexpr std::size_t min_destinations = detail::arrays_of<decltype(how.after)> > 0 ? 0 : 1;
    detail::expect_number("sources", sources.size(), 1, detail::max_sources_like<Source>);
    detail::expect_number("destinations", destinations.size(), min_destinations, detail::max_destinations);
    detail::launch_pass_for<1, 2, 4, 8>(on, stream, sources, destinations, n, how);
  }
}

}  // namespace tutti
