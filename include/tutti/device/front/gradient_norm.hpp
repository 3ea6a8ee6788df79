// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The norm of gradients on devices of several ranks, and their clipping by it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <ranges>
#include <source_location>
#include <span>
#include <type_traits>

#include "tutti/call/check_arguments.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/front/accessible.hpp"
#include "tutti/device/front/collectives.hpp"
#include "tutti/device/kernel/combine.hpp"
#include "tutti/device/kernel/norm.hpp"
#include "tutti/reduce/fused.hpp"

namespace tutti {

// What ranks pass to a gradient_norm: parts of one gradient, whose squares add up, or all the same gradient, whose norm each
// computes alone.
enum class gradients { in_shards, equal };

// The L2 norm of gradients, which stays in device memory, and the factor by which torch.nn.utils.clip_grad_norm_ multiplies them:
// min(1, limit / (norm + 1e-6)). If gradients are not finite, neither is the norm.
//
// Arguments  lists of device arrays of elements that are combined in float; ranks may pass different numbers of elements. All
//            calls of an object are on one stream. `elements` and `arrays`: as many as a call passes at most
// Order      16 bytes of an array in float; then in double, by each of 256 threads for chunks of 16,384 elements, in the order of
//            threads, of chunks and of arrays, 256 sums at a time; then the ranks in rank order. So all ranks get the same bits, and
//            repeated calls too. The relative error of the norm is at most 2^-21 if the elements that are not 0 have magnitudes of
//            1e-18 to 1e18: squares of smaller ones may be lost in float, and those of larger ones make the norm infinite
// Cost       measure reads each element once, and sends 8 bytes to every rank; clip reads and writes each once, and needs no
//            pass where a fused call multiplies: scale{from_memory(norm.factor())}
// Options    measure takes the stream and the timeout, clip the stream; other options have no effect
// Throws     error: bad_argument; those of all_gather
//
//   tutti::gradient_norm norm(ranks, elements, parameters.size());
//   norm.measure(gradients, 1.0f, {.stream = stream});
//   norm.clip(gradients, {.stream = stream});
template <detail::device_ranks R>
  requires detail::cooperative_device<typename R::device_type>
class gradient_norm {
 public:
  using device_type = typename R::device_type;
  using options = detail::device_options_of<R>;

  // The ranks must outlive it.
  gradient_norm(R& ranks, std::size_t elements, std::size_t arrays = 1)
      : ranks_(ranks),
        sums_(ranks.on(), detail::slices(elements, detail::norm_chunk) + arrays),
        totals_(ranks.on(), 1 + static_cast<std::size_t>(ranks.size())),
        results_(ranks.on(), 2) {}

  // One float each, in device memory; those of the last measure.
  float const* norm() const { return results_.data(); }
  float const* factor() const { return results_.data() + 1; }

  template <detail::device_list List>
  void measure(List const& list, float limit, options const& how = {}, gradients passed = gradients::in_shards,
               std::source_location where = std::source_location::current()) {
    auto const stream = stream_of_call(how);
    std::size_t const chunks = sum_chunks(list, stream, where);
    if (passed == gradients::equal || ranks_.size() == 1) return add_up(stream, sums_.data(), chunks, nullptr, limit);
    auto const size = static_cast<std::size_t>(ranks_.size());
    std::span<double> const own(totals_.data(), 1), all(totals_.data() + 1, size);
    add_up(stream, sums_.data(), chunks, own.data(), limit);
    all_gather(ranks_, own, all, options{.stream = how.stream, .timeout = how.timeout}, where);
    add_up(stream, all.data(), size, nullptr, limit);
  }

  // Multiplies the elements by the factor.
  template <detail::device_list List>
  void clip(List&& list, options const& how = {}, std::source_location where = std::source_location::current()) const {
    detail::expect_list_accessible("gradient_norm::clip", ranks_.on(), ranks_.rank(), list, where);
    auto const stream = stream_of_call(how);
    for (auto&& array : list) {
      using T = detail::device_value<std::remove_reference_t<decltype(array)>>;
      if (array.size() == 0) continue;
      T* const to = device_data(array);
      T const* const from = to;
      detail::launch_pass<1>(ranks_.on(), stream, std::span<T const* const>(&from, 1), std::span<T* const>(&to, 1),
                             array.size(), fused{sum{}, detail::unchanged{}, scale{from_memory(factor())}});
    }
  }

 private:
  // The stream that calls without one have.
  auto stream_of_call(options const& how) const {
    if constexpr (requires { ranks_.with_stream(how); }) return ranks_.with_stream(how).stream;
    else return how.stream;
  }

  // Returns the number of chunks.
  template <class List>
  std::size_t sum_chunks(List const& list, detail::stream_of<device_type> stream, std::source_location where) {
    using T = detail::device_value<std::remove_reference_t<std::ranges::range_reference_t<List const>>>;
    static_assert(std::is_same_v<typename element_traits<T>::accumulator, float>,
                  "gradients have elements that are combined in float");
    detail::expect_list_accessible("gradient_norm::measure", ranks_.on(), ranks_.rank(), list, where);
    detail::squares_work<T> work{};
    std::size_t chunks = 0;
    auto const launch = [&] {
      if (work.count == 0) return;
      std::size_t const here = work.first_chunks[work.count];
      auto const most =
          static_cast<std::size_t>(std::max(ranks_.on().template blocks_at_once<detail::squares_work<T>>(), 1));
      work.blocks = static_cast<int>(std::min(here, most));
      work.sums = sums_.data() + chunks;
      if (chunks + here > sums_.size())
        detail::refuse(ranks_.rank(), "a gradient_norm got more elements or arrays than it was made for",
                       "make it for the most elements and arrays that a call passes", where);
      ranks_.on().launch_together(stream, work.blocks, work);
      chunks += here;
      work.count = 0;
    };
    for (auto&& array : list) {
      if (array.size() == 0) continue;
      if (work.count == work.most) launch();
      auto const k = static_cast<std::size_t>(work.count++);
      work.arrays[k] = device_data(array);
      work.lengths[k] = array.size();
      work.first_chunks[k + 1] = work.first_chunks[k] + detail::slices(array.size(), detail::norm_chunk);
    }
    launch();
    return chunks;
  }
  void add_up(detail::stream_of<device_type> stream, double const* sums, std::size_t count, double* total,
              float limit) {
    ranks_.on().launch_together(stream, 1,
                                detail::norm_work{sums, count, total, results_.data(), results_.data() + 1, limit});
  }

  R& ranks_;
  detail::device_array<device_type, double> sums_, totals_;  // of chunks; of this rank, then of all
  detail::device_array<device_type, float> results_;
};

}  // namespace tutti
