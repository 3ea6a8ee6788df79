// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The data path on a device: a grid combines N sources into M destinations in one pass, with prologue and epilogue. Its functions
// also run on the host, on one thread.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <type_traits>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/reduce/combine.hpp"
#include "tutti/reduce/complex.hpp"
#include "tutti/reduce/convert.hpp"
#include "tutti/reduce/fused.hpp"

namespace tutti {

namespace detail {

// The limits of one pass. Sources and destinations are kernel parameters, of which every version of CUDA accepts 4 KiB.
inline constexpr int max_sources = 256;
inline constexpr int max_destinations = 64;

// The widest access of a device is 16 bytes. If element types differ, packs of the widest type have 16 bytes and the others fewer,
// so that neighbouring threads access neighbouring memory in every array.
inline constexpr std::size_t access_bytes = 16;
template <class... T>
inline constexpr std::size_t device_pack =
    ((access_bytes % sizeof(T) == 0) && ...) ? access_bytes / std::max({sizeof(T)...}) : 1;

// The unit of one load or store instruction. It may alias elements of any type.
template <class Word, int Words>
struct [[gnu::may_alias]] alignas(Words * sizeof(Word)) words {
  Word of[Words];
};
template <std::size_t Bytes>
using words_of = std::conditional_t<Bytes % 4 == 0, words<std::uint32_t, Bytes / 4>, words<std::uint16_t, 1>>;

// nvcc splits the store of a struct into words, so wide stores are written in assembly.
template <class Word, int Words>
TUTTI_HOST_DEVICE inline void store_words(void* to, words<Word, Words> const& x) {
#if defined(__CUDA_ARCH__)
  if constexpr (Words == 4) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(x.of[0]),
                 "r"(x.of[1]), "r"(x.of[2]), "r"(x.of[3])
                 : "memory");
  } else if constexpr (Words == 2) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "r"(x.of[0]), "r"(x.of[1])
                 : "memory");
  } else
#endif
    *static_cast<words<Word, Words>*>(to) = x;
}

// N elements from `at` on: a pack in one access, otherwise one by one.
template <std::size_t N, class Source, class T>
TUTTI_HOST_DEVICE inline void load_elements(Source source, std::size_t at, T (&to)[N]) {
  if constexpr (N > 1 && std::is_pointer_v<Source>) {
    auto const pack = *reinterpret_cast<words_of<sizeof to> const*>(source + at);
    std::memcpy(static_cast<void*>(to), &pack, sizeof to);
  } else {
    TUTTI_UNROLL
    for (std::size_t i = 0; i < N; ++i) to[i] = source[static_cast<std::ptrdiff_t>(at + i)];
  }
}
template <std::size_t N, class T>
TUTTI_HOST_DEVICE inline void store_elements(T* to, T const (&from)[N]) {
  if constexpr (N > 1) {
    words_of<sizeof from> pack;
    std::memcpy(&pack, from, sizeof from);
    store_words(to, pack);
  } else {
    *to = from[0];
  }
}

template <class After>
struct array_type {
  using type = std::byte;
};
template <class Step, class S, int Arrays, held Elements>
struct array_type<arrays_step<Step, S, Arrays, Elements>> {
  using type = S;
};

// A prologue may take the index of its source.
template <class A, class Before>
TUTTI_HOST_DEVICE inline A contribution(Before const& before, int k, A const& x) {
  if constexpr (requires { before(k, x); }) return static_cast<A>(before(k, x));
  else return static_cast<A>(before(x));
}

// An epilogue on N elements, which are element `at` of its arrays and those that follow.
template <std::size_t N, class A, class After>
TUTTI_HOST_DEVICE inline void apply_epilogue(After const& after, std::size_t at, A const (&all)[N], A (&result)[N]) {
  constexpr int arrays = arrays_of<After>;
  if constexpr (arrays > 0) {
    typename array_type<After>::type values[arrays][N];
    TUTTI_UNROLL
    for (int k = 0; k < arrays; ++k) load_elements<N>(after.arrays[k], at, values[k]);
    TUTTI_UNROLL
    for (std::size_t i = 0; i < N; ++i) {
      typename array_type<After>::type element[arrays];
      TUTTI_UNROLL
      for (int k = 0; k < arrays; ++k) element[k] = values[k][i];
      result[i] = static_cast<A>(after.step(all[i], element));
      TUTTI_UNROLL
      for (int k = 0; k < arrays; ++k) values[k][i] = element[k];
    }
    TUTTI_UNROLL
    for (int k = 0; k < arrays; ++k) store_elements<N>(after.arrays[k] + at, values[k]);
  } else {
    TUTTI_UNROLL
    for (std::size_t i = 0; i < N; ++i) result[i] = static_cast<A>(after(all[i]));
  }
}

// from(k) is the k-th source, to(k) the k-th destination. There are exactly FanIn sources, or any number if it is 0.
template <int FanIn, class From, class To, class Fused>
struct combining;

template <int FanIn, class From, class To, class Op, class Before, class After>
struct combining<FanIn, From, To, fused<Op, Before, After>> {
  From const& from;
  int sources;
  To const& to;
  int destinations;
  std::size_t n;
  fused<Op, Before, After> const& how;

  using source = std::remove_cvref_t<decltype(std::declval<From const&>()(0))>;
  using in = std::iter_value_t<source>;
  using out = std::remove_pointer_t<std::remove_cvref_t<decltype(std::declval<To const&>()(0))>>;
  using array = typename array_type<After>::type;
  using A = accumulator_for<Op, in>;
  static constexpr int arrays = arrays_of<After>;
  static constexpr std::size_t pack = arrays > 0 ? device_pack<in, out, array> : device_pack<in, out>;
  // Each thread has eight packs in flight, as far as all accumulators fit into its registers.
  static constexpr int turns = FanIn == 0 || arrays > 0 ? 1 : std::min(std::max(8 / FanIn, 1), pack > 8 ? 2 : 4);

  // Combines the next Sources sources, all loaded before the first is combined. First: there is no result yet.
  template <int Sources, bool First, int Turns, std::size_t N>
  TUTTI_HOST_DEVICE void add(int begin, std::size_t at, std::size_t stride, A (&all)[Turns][N]) const {
    in loaded[Turns][Sources][N];
    TUTTI_UNROLL
    for (int t = 0; t < Turns; ++t) {
      TUTTI_UNROLL
      for (int k = 0; k < Sources; ++k)
        load_elements<N>(from(begin + k), at + static_cast<std::size_t>(t) * stride, loaded[t][k]);
    }
    TUTTI_UNROLL
    for (int t = 0; t < Turns; ++t) {
      TUTTI_UNROLL
      for (int k = 0; k < Sources; ++k) {
        TUTTI_UNROLL
        for (std::size_t i = 0; i < N; ++i) {
          A const x = contribution(how.before, begin + k, widened<A>(loaded[t][k][i]));
          if (First && k == 0) all[t][i] = x;
          else all[t][i] = static_cast<A>(how.op(all[t][i], x));
        }
      }
    }
  }

  template <std::size_t N>
  TUTTI_HOST_DEVICE void finish(std::size_t at, A const (&all)[N]) const {
    A ended[N];
    out result[N];
    apply_epilogue(how.after, at, all, ended);
    TUTTI_UNROLL
    for (std::size_t i = 0; i < N; ++i) result[i] = narrowed<out>(ended[i]);
    TUTTI_NO_UNROLL
    for (int k = 0; k < destinations; ++k) store_elements<N>(to(k) + at, result);
  }

  // `Turns` packs of N elements, `stride` apart.
  template <std::size_t N, int Turns>
  TUTTI_HOST_DEVICE void turn(std::size_t at, std::size_t stride) const {
    A all[Turns][N];
    if constexpr (FanIn > 0) {
      add<FanIn, true>(0, at, stride, all);
    } else {
      add<1, true>(0, at, stride, all);
      int k = 1;
      TUTTI_NO_UNROLL
      for (; k + 4 <= sources; k += 4) add<4, false>(k, at, stride, all);
      TUTTI_NO_UNROLL
      for (; k < sources; ++k) add<1, false>(k, at, stride, all);
    }
    TUTTI_UNROLL
    for (int t = 0; t < Turns; ++t) finish(at + static_cast<std::size_t>(t) * stride, all[t]);
  }

  template <std::size_t N, int Turns, class Group>
  TUTTI_HOST_DEVICE void sweep(Group const& group, std::size_t begin, std::size_t packs) const {
    std::size_t const size = static_cast<std::size_t>(group.size());
    std::size_t i = static_cast<std::size_t>(group.rank());
    if constexpr (Turns > 1)
      for (; i + (Turns - 1) * size < packs; i += Turns * size) turn<N, Turns>(begin + i * N, size * N);
    for (; i < packs; i += size) turn<N, 1>(begin + i * N, 0);
  }

  // Whether p + head is aligned for a pack.
  template <class P>
  TUTTI_HOST_DEVICE static bool is_aligned(P p, std::size_t head) {
    if constexpr (std::is_pointer_v<P>) {
      constexpr std::size_t bytes = pack * sizeof(*p);
      return reinterpret_cast<std::uintptr_t>(p + head) % bytes == 0;
    } else {
      return true;
    }
  }

  // The number of elements before the first pack: all of them if the arrays are not aligned alike.
  TUTTI_HOST_DEVICE std::size_t before_packs() const {
    if constexpr (pack == 1) return 0;
    std::size_t head = 0;
    if constexpr (std::is_pointer_v<source>) {
      while (head < pack && !is_aligned(from(0), head)) ++head;
    } else {
      if (destinations > 0)
        while (head < pack && !is_aligned(to(0), head)) ++head;
    }
    bool all = head < n && head < pack;
    for (int k = 0; k < sources; ++k) all = all && is_aligned(from(k), head);
    for (int k = 0; k < destinations; ++k) all = all && is_aligned(to(k), head);
    if constexpr (arrays > 0)
      for (int k = 0; k < arrays; ++k) all = all && is_aligned(how.after.arrays[k], head);
    return all ? head : n;
  }

  template <cooperating_group Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group) const {
    std::size_t const head = before_packs(), packs = (n - head) / pack, tail = head + packs * pack;
    if constexpr (pack > 1) sweep<1, 1>(group, 0, head);
    sweep<pack, turns>(group, head, packs);
    if constexpr (pack > 1) sweep<1, 1>(group, tail, n - tail);
  }
};

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

  template <cooperating_group Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group) const {
    auto const from = [this](int k) { return sources[k]; };
    auto const to = [this](int k) { return destinations[k]; };
    combining<FanIn, decltype(from), decltype(to), Fused>{from, source_count, to, destination_count, n, how}(group);
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
      .how = how};
  for (std::size_t k = 0; k < sources.size(); ++k) pass.sources[k] = to_device_form<Op>(sources[k]);
  for (std::size_t k = 0; k < destinations.size(); ++k) pass.destinations[k] = to_device_form<Op>(destinations[k]);
  on.launch(stream, n / device_pack<std::iter_value_t<source>, out> + 1, pass);
}

// A pass over at least Least sources: smaller fan-ins are not compiled.
template <int Least, device D, class Source, class Out, class How>
void launch_pass_of_least(D const& on, stream_of<D> stream, std::span<Source const> sources,
                          std::span<Out* const> destinations, std::size_t n, How const& how) {
  if constexpr (!is_fused<How>) {
    launch_pass_of_least<Least>(on, stream, sources, destinations, n, fused<How>{how});
  } else {
    if (n == 0) return;
    switch (destinations.size() > 8 ? 0 : sources.size()) {
      case 1:
        if constexpr (Least <= 1) return launch_pass<1>(on, stream, sources, destinations, n, how);
        break;
      case 2: return launch_pass<2>(on, stream, sources, destinations, n, how);
      case 4: return launch_pass<4>(on, stream, sources, destinations, n, how);
      case 8: return launch_pass<8>(on, stream, sources, destinations, n, how);
      default: break;
    }
    launch_pass<0>(on, stream, sources, destinations, n, how);
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
// Fastest if all arrays start at the same address modulo 16 bytes; otherwise accesses are single elements.
template <detail::device D, detail::device_source Source, element Out, std::copy_constructible How>
void cuda_combine(D const& on, detail::stream_of<D> stream, std::span<Source const> sources,
                  std::span<Out* const> destinations, std::size_t n, How const& how) {
  if constexpr (!detail::is_fused<How>) {
    cuda_combine(on, stream, sources, destinations, n, fused<How>{how});
  } else {
    constexpr std::size_t min_destinations = detail::arrays_of<decltype(how.after)> > 0 ? 0 : 1;
    detail::expect_number("sources", sources.size(), 1, detail::max_sources_like<Source>);
    detail::expect_number("destinations", destinations.size(), min_destinations, detail::max_destinations);
    detail::launch_pass_of_least<1>(on, stream, sources, destinations, n, how);
  }
}

}  // namespace tutti
