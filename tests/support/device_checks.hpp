// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks that every device must pass: the stand-in of the tests and a GPU run the same ones. Each returns the number of
// wrong elements.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "support/types_and_ops.hpp"
#include "tutti/device/kernel/combine.hpp"

namespace tutti::testing {

// An array on a device that starts `offset` elements past an aligned address, with margins that must not be written.
template <detail::device D, class T>
class device_values {
 public:
  device_values(D const& on, std::size_t count, std::size_t offset, int seed)
      : on_{&on},
        count_{count},
        begin_{margin + offset},
        before_(begin_ + count + margin),
        memory_(on, before_.size()) {
    for (std::size_t i = 0; i < before_.size(); ++i) before_[i] = make_value<T>(seed, i);
    on_->copy({}, memory_.data(), before_.data(), before_.size() * sizeof(T));
    on_->wait({}, detail::deadline::after(limit));
  }
  T* data() const { return memory_.data() + begin_; }
  std::size_t size() const { return count_; }
  T const* before() const { return before_.data() + begin_; }

  // Counts elements that differ from `expected`, or in the margins from their initial values.
  int differ(T const* expected) const {
    std::vector<T> now(before_.size());
    on_->copy({}, now.data(), memory_.data(), now.size() * sizeof(T));
    on_->wait({}, detail::deadline::after(limit));
    int out = 0;
    for (std::size_t i = 0; i < now.size(); ++i) {
      bool const inside = i >= begin_ && i < begin_ + count_;
      out += !same_bits<T>(now[i], inside ? expected[i - begin_] : before_[i]);
    }
    return out;
  }

 private:
  static constexpr std::size_t margin = 64;
  static constexpr std::chrono::seconds limit{60};
  D const* on_;
  std::size_t count_, begin_;
  std::vector<T> before_;
  detail::device_array<D, T> memory_;
};

// combine on the device, compared with combine on the host. The last destination is the first source if `in_place`.
template <class T, detail::device D, class Op>
int wrong_combined(D const& on, std::size_t n, int fan_in, int fan_out, bool in_place, std::size_t offset, bool alike,
                   Op const& op) {
  std::vector<device_values<D, T>> from, to;
  std::vector<T const*> sources, at_host;
  std::vector<T*> destinations;
  for (int k = 0; k < fan_in; ++k) {
    from.emplace_back(on, n, alike ? offset : (offset * static_cast<std::size_t>(k + 1)) % 7, k);
    sources.push_back(from.back().data());
    at_host.push_back(from.back().before());
  }
  for (int k = 0; k < fan_out - in_place; ++k) {
    to.emplace_back(on, n, alike ? offset : (offset * static_cast<std::size_t>(k + 3)) % 5, 100 + k);
    destinations.push_back(to.back().data());
  }
  if (in_place) destinations.push_back(from[0].data());

  std::vector<T> expected(n);
  T* const result[] = {expected.data()};
  detail::combine(detail::one_thread{}, at_host.data(), fan_in, result, 1, n, op);
  cuda_combine(on, {}, std::span<T const* const>(sources), std::span<T* const>(destinations), n, op);

  int wrong = 0;
  for (auto const& x : to) wrong += x.differ(expected.data());
  for (int k = 0; k < fan_in; ++k) {
    auto const& x = from[static_cast<std::size_t>(k)];
    wrong += x.differ(in_place && k == 0 ? expected.data() : x.before());
  }
  return wrong;
}

inline constexpr int checked_fan_ins[] = {1, 2, 3, 4, 5, 8, 9, 16};

// All fan-ins with tails, offsets, arrays aligned alike and not, several destinations, in place and not.
template <class T, detail::device D, class Op>
int wrong_of_type(D const& on, std::span<std::size_t const> counts, Op const& op) {
  int wrong = 0, turn = 0;
  for (std::size_t const n : counts)
    for (int const fan_in : checked_fan_ins) {
      ++turn;
      wrong += wrong_combined<T>(on, n, fan_in, turn % 7 == 0 ? 11 : 1 + turn % 3, turn % 2 == 0,
                                 static_cast<std::size_t>(turn) % 5, turn % 3 != 0, op);
    }
  return wrong;
}

// A source and a destination at every pair of alignments, and `fan_in - 1` more sources at others; of several lengths, so that packs
// begin and end where arrays do. Memory of sources ends with them.
template <class T, detail::device D, class Op>
int wrong_at_alignments(D const& on, int fan_in, Op const& op, std::size_t every = 1) {
  constexpr std::size_t places = detail::access_bytes / sizeof(T);
  int wrong = 0;
  std::size_t turn = 0;
  for (std::size_t source = 0; source < places; source += every)
    for (std::size_t destination = 0; destination < places; destination += every) {
      std::size_t const n = 4 * places + turn++ % places;
      std::vector<detail::device_array<D, T>> memory;
      std::vector<std::vector<T>> values;
      std::vector<T const*> sources, at_host;
      for (int k = 0; k < fan_in; ++k) {
        std::size_t const offset = (source + static_cast<std::size_t>(k) * (turn % 3)) % places;
        values.push_back(std::vector<T>(n));
        for (std::size_t i = 0; i < n; ++i) values.back()[i] = make_value<T>(k, i);
        at_host.push_back(values.back().data());
        sources.push_back(memory.emplace_back(on, offset + n).data() + offset);
        on.copy({}, memory.back().data() + offset, values.back().data(), n * sizeof(T));
      }
      device_values<D, T> const to(on, n, destination, 100);
      std::vector<T> expected(n);
      T* const at[] = {to.data()};
      T* const result[] = {expected.data()};
      detail::combine(detail::one_thread{}, at_host.data(), fan_in, result, 1, n, op);
      cuda_combine(on, {}, std::span<T const* const>(sources), std::span<T* const>(at), n, op);
      wrong += to.differ(expected.data());
    }
  return wrong;
}

// Every code of a narrow type is converted to float and back without change, except for NaNs.
template <class T, detail::device D>
int wrong_codes(D const& on) {
  using bits = decltype(T::bits);
  constexpr std::size_t n = std::size_t{1} << (8 * sizeof(T));
  std::vector<T> codes(n), narrow(n);
  std::vector<float> wide(n);
  for (std::size_t i = 0; i < n; ++i) codes[i] = T::from_bits(static_cast<bits>(i));
  detail::device_array<D, T> from(on, n), back(on, n);
  detail::device_array<D, float> between(on, n);
  T const* const sources[] = {from.data()};
  float const* const again[] = {between.data()};
  float* const to[] = {between.data()};
  T* const last[] = {back.data()};
  on.copy({}, from.data(), codes.data(), n * sizeof(T));
  cuda_combine(on, {}, std::span<T const* const>(sources), std::span<float* const>(to), n, sum{});
  cuda_combine(on, {}, std::span<float const* const>(again), std::span<T* const>(last), n, sum{});
  on.copy({}, wide.data(), between.data(), n * sizeof(float));
  on.copy({}, narrow.data(), back.data(), n * sizeof(T));
  on.wait({}, detail::deadline::after(std::chrono::seconds{60}));
  int wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    float const expected = codes[i];
    if (expected != expected) wrong += wide[i] == wide[i] || float{narrow[i]} == float{narrow[i]};
    else wrong += !same_bits(wide[i], expected) || narrow[i].bits != T(expected).bits;
  }
  return wrong;
}

// Floats of all exponents, ties and their neighbours, rounded to a narrow type.
template <class T, detail::device D>
int wrong_roundings(D const& on) {
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits <= UINT32_MAX; bits += 0x10fff) {
    values.push_back(__builtin_bit_cast(float, static_cast<std::uint32_t>(bits)));
    values.push_back(__builtin_bit_cast(float, static_cast<std::uint32_t>(bits & 0xfff80000)));
    values.push_back(__builtin_bit_cast(float, static_cast<std::uint32_t>(bits & 0xffff8000)));
  }
  std::size_t const n = values.size();
  std::vector<T> got(n);
  detail::device_array<D, float> from(on, n);
  detail::device_array<D, T> to(on, n);
  float const* const sources[] = {from.data()};
  T* const destinations[] = {to.data()};
  on.copy({}, from.data(), values.data(), n * sizeof(float));
  cuda_combine(on, {}, std::span<float const* const>(sources), std::span<T* const>(destinations), n, sum{});
  on.copy({}, got.data(), to.data(), n * sizeof(T));
  on.wait({}, detail::deadline::after(std::chrono::seconds{60}));
  int wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    float const rounded = got[i];
    wrong += values[i] != values[i] ? rounded == rounded : got[i].bits != T(values[i]).bits;
  }
  return wrong;
}

}  // namespace tutti::testing
