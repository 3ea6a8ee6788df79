// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The collectives of cuda_local compared with one_shot on the host, bit by bit, for any device.
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/types_and_ops.hpp"
#include "tutti/device/local/cuda_local.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// Contributions of ranks whose sums depend on the order of combination.
template <class T>
std::vector<T> uneven_values(int rank, std::size_t count) {
  std::vector<T> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_floating_point_v<T> || narrow_float<T>) {
      std::uint64_t const x = scramble(static_cast<std::uint64_t>(rank), i);
      float const mantissa = 1.0f + static_cast<float>(x >> 40) / static_cast<float>(1 << 24);
      out[i] = static_cast<T>(std::ldexp(mantissa, static_cast<int>(x % 9) - 4));
    } else {
      out[i] = make_value<T>(rank, i);
    }
  }
  return out;
}

// Arrays of all ranks, on the host.
template <class T>
using ranks_values = std::vector<std::vector<T>>;
template <class T>
ranks_values<T> all_values(int ranks, std::size_t count) {
  ranks_values<T> out;
  for (int r = 0; r < ranks; ++r) out.push_back(uneven_values<T>(r, count));
  return out;
}

template <detail::device D, class T>
std::vector<detail::device_array<D, T>> to_device(D const& on, ranks_values<T> const& values) {
  std::vector<detail::device_array<D, T>> out;
  for (auto const& x : values) {
    out.emplace_back(on, x.size());
    on.copy({}, out.back().data(), x.data(), x.size() * sizeof(T));
  }
  on.wait({}, detail::deadline::after(std::chrono::seconds{60}));
  return out;
}
// The device of each rank.
template <detail::device D, class Reach, class T>
std::vector<detail::device_array<D, T>> to_device(cuda_local<D, Reach> const& ranks, ranks_values<T> const& values) {
  std::vector<detail::device_array<D, T>> out;
  for (auto const& x : values) {
    auto one = to_device(ranks.on(static_cast<int>(out.size())), ranks_values<T>{x});
    out.push_back(std::move(one.front()));
  }
  return out;
}
template <detail::device D, class T>
ranks_values<T> to_host(D const& on, std::vector<detail::device_array<D, T>> const& arrays) {
  ranks_values<T> out;
  for (auto const& x : arrays) {
    out.emplace_back(x.size());
    on.copy({}, out.back().data(), x.data(), x.size() * sizeof(T));
  }
  on.wait({}, detail::deadline::after(std::chrono::seconds{60}));
  return out;
}

template <class T>
int different(ranks_values<T> const& a, ranks_values<T> const& b) {
  int out = a.size() != b.size();
  for (std::size_t r = 0; r < a.size() && r < b.size(); ++r) {
    out += a[r].size() != b[r].size();
    for (std::size_t i = 0; i < a[r].size() && i < b[r].size(); ++i) out += !same_bits<T>(a[r][i], b[r][i]);
  }
  return out;
}

// The contents of the buffers of `outs` ranks with `out_count` elements each after a collective on the device, by
// `call(ranks, in, out)`. All buffers start with the values of rank 99.
template <class T, detail::device D, class Reach, class Call>
ranks_values<T> result_on_device(cuda_local<D, Reach> const& ranks, int ins, std::size_t in_count, int outs,
                                 std::size_t out_count, Call const& call) {
  auto in = to_device(ranks, all_values<T>(ins, in_count));
  auto out = to_device(ranks, ranks_values<T>(static_cast<std::size_t>(outs), uneven_values<T>(99, out_count)));
  call(ranks, in, out);
  return to_host(ranks.on(), out);
}
template <class T, detail::device D, class Call>
ranks_values<T> result_on_device(D const& on, int ranks, int ins, std::size_t in_count, int outs, std::size_t out_count,
                                 Call const& call) {
  return result_on_device<T>(cuda_local(on, ranks), ins, in_count, outs, out_count, call);
}

// The same with threads as ranks, each of which calls call(comm, in, out).
template <class T, class Call>
ranks_values<T> on_host(int ranks, std::size_t in_count, std::size_t out_count, Call const& call) {
  ranks_values<T> out(static_cast<std::size_t>(ranks), uneven_values<T>(99, out_count));
  if (in_count == 0) return out;
  run_threads(ranks, [&](auto& comm) {
    auto const in = uneven_values<T>(comm.rank(), in_count);
    call(comm, in, out[static_cast<std::size_t>(comm.rank())]);
  });
  return out;
}

}  // namespace tutti::testing
