// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks by each rank of all_reduce with an epilogue on rows, whichever class carries it out. Sums and residuals must have the bits
// of the host. Results are compared with those in double of the same rows; their error is bounded by that of the type in which they
// are stored, and (64 + length / 64) roundings of float. All ranks must have the same bits. Throws if they do not.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "support/expect.hpp"
#include "support/row_reference.hpp"
#include "support/types_and_ops.hpp"
#include "tutti/device/front/collectives.hpp"
#include "tutti/device/kernel/rows.hpp"
#include "tutti/reduce/convert.hpp"
#include "tutti/reduce/rows.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// Values from -2 to 2 that differ between ranks, of which one in eight is small. Sums of eight are exact in float.
template <class T>
std::vector<T> row_values(int rank, std::size_t n) {
  std::vector<T> out(n);
  std::uint32_t state = 77u * static_cast<std::uint32_t>(rank + 1);
  for (T& x : out) {
    state = state * 1664525u + 1013904223u;
    float const value = static_cast<float>(state >> 16) / static_cast<float>(1 << 14) - 2.0f;
    x = detail::narrowed<T>((state >> 4) % 8 == 0 ? value / 64 : value);
  }
  return out;
}

template <class T>
doubles row_of(std::vector<T> const& all, std::size_t row, std::size_t length) {
  doubles out(length);
  for (std::size_t i = 0; i < length; ++i) out[i] = double{detail::widened<float>(all[row * length + i])};
  return out;
}

// Half the distance of neighbouring numbers, relative to them.
template <class T>
inline constexpr double rounding_of = 1.0 / static_cast<double>(std::uint64_t{1} << std::numeric_limits<T>::digits);
inline double roundings_of_row(std::size_t length) { return std::ldexp(64 + static_cast<double>(length) / 64, -24); }

// A row that does not fit the memory of a block.
template <class T>
inline constexpr std::size_t length_of_long_row = detail::row_bytes_kept / sizeof(T) + 100;

template <class In, class R, class Comm>
class device_rows {
 public:
  using device_type = typename R::device_type;
  template <class T>
  using array = detail::device_array<device_type, T>;

  // For messages of at most `most` elements. Arrays are there before any kernel waits for others, because to allocate can mean to
  // wait until all devices of the process are idle.
  device_rows(R& ranks, Comm& comm, std::size_t most, detail::device_options_of<R> const& how)
      : ranks_(ranks),
        comm_(comm),
        how_(how),
        in_(ranks.template allocate<In>(most + 1)),
        same_out_(ranks.template allocate<In>(most + 1)),
        residual_(on(), most + 1),
        float_out_(on(), most),
        float_residual_(on(), most),
        narrow_out_(on(), most),
        weights_(on(), most + 1),
        scales_(on(), most),
        float_weights_(on(), most),
        biases_(on(), most) {
    barrier(comm);
  }
  ~device_rows() { barrier(comm_); }

  // The input is read in place.
  void check_symmetric(std::size_t rows, std::size_t length) {
    begin(algorithm_id::one_shot, rows, length, 0);
    how_.symmetric = true;
    norm_with_residual();
    norm_with_row_scales();
    normalise_layers();
    how_.symmetric = false;
  }
  // By this algorithm, with `rows` rows. Arrays begin `skip` elements behind an aligned address.
  void check_norms(algorithm_id by, std::size_t rows, std::size_t length, std::size_t skip = 0) {
    begin(by, rows, length, skip);
    norm_with_residual();
    norm_with_row_scales();
    normalise_layers();
  }
  void check_residual(algorithm_id by, std::size_t rows, std::size_t length) {
    begin(by, rows, length, 0);
    norm_with_residual();
  }
  void check_all(algorithm_id by, std::size_t rows, std::size_t length, std::size_t skip = 0) {
    check_norms(by, rows, length, skip);
    norm_with_one_scale();
    softmax_in_place();
  }

 private:
  void begin(algorithm_id by, std::size_t rows, std::size_t length, std::size_t skip) {
    how_.algorithm = by;
    rows_ = rows, length_ = length, skip_ = skip;
    what_ = detail::join({name(by), ", ", rows, " rows of ", length, " from element ", skip, ": "});
    std::vector<float> sums(rows * length);
    for (int q = 0; q < comm_.size(); ++q) {
      auto const values = row_values<In>(q, sums.size());
      for (std::size_t i = 0; i < sums.size(); ++i) {
        float const x = detail::widened<float>(values[i]);
        sums[i] = q == 0 ? x : sums[i] + x;
      }
    }
    sums_.clear();
    for (float const x : sums) sums_.push_back(detail::narrowed<In>(x));
    auto const mine = row_values<In>(comm_.rank(), sums.size());
    put(std::span<In const>(mine), in_.data() + skip_);
  }
  device_type const& on() const { return ranks_.on(); }
  std::size_t count() const { return rows_ * length_; }

  template <class T>
  void put(std::span<T const> from, T* to) {
    on().copy(how_.stream, to, from.data(), from.size_bytes());
    on().wait(how_.stream, detail::deadline::after(std::chrono::minutes{5}));
  }
  template <class T>
  std::vector<T> got(T const* from, std::size_t n) {
    std::vector<T> out(n);
    on().copy(how_.stream, out.data(), from, n * sizeof(T));
    ranks_.work(how_.stream).wait();  // throws if the ranks have given up the call, whose results are then incomplete
    expect_same_on_all_ranks(out);
    return out;
  }
  template <class T>
  void expect_same_on_all_ranks(std::vector<T> const& out) {
    std::uint64_t hash = 1;
    for (T const& x : out)
      for (std::byte const b : std::as_bytes(std::span(&x, 1))) hash = hash * 31 + static_cast<std::uint64_t>(b);
    std::vector<std::uint64_t> const own{hash};
    std::vector<std::uint64_t> all(static_cast<std::size_t>(comm_.size()));
    all_gather(comm_, own, all);
    expect(std::ranges::count(all, hash) == comm_.size(), what_ + "ranks have different bits");
  }
  template <class T, class Reference, class Magnitude>
  void compare(std::vector<T> const& out, std::vector<float> const& scales, Reference const& reference,
               Magnitude const& magnitude, std::string_view of) {
    for (std::size_t row = 0; row < rows_; ++row) {
      doubles const expected = reference(row);
      for (std::size_t i = 0; i < length_; ++i) {
        double const scale = scales.empty() ? 1 : double{scales[scales.size() > 1 ? row : 0]};
        double const y = double{detail::widened<float>(out[row * length_ + i])} * scale, x = expected[i];
        double const least = double{static_cast<float>(std::numeric_limits<T>::denorm_min())} * scale;
        double const bound = rounding_of<T> * std::abs(x) + least + roundings_of_row(length_) * magnitude(expected, i);
        expect(std::abs(y - x) <= bound, detail::join({what_, of, " is wrong at row ", row, ", column ", i, ": ",
                                                       std::to_string(y), " for ", std::to_string(x)}));
      }
    }
  }
  static double itself(doubles const& row, std::size_t i) { return std::abs(row[i]); }

  // The residual after the sums were added to it, as the host computes it.
  template <class T>
  std::vector<T> with_sums(std::vector<T> const& residual) const {
    std::vector<T> out(residual.size());
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = detail::narrowed<T>(detail::widened<float>(sums_[i]) + detail::widened<float>(residual[i]));
    return out;
  }
  template <class T>
  void expect_residual(std::vector<T> const& now, std::vector<T> const& expected) {
    for (std::size_t i = 0; i < now.size(); ++i)
      expect(same_bits<T>(now[i], expected[i]), detail::join({what_, "the residual is wrong at element ", i}));
  }

  void norm_with_residual() {
    auto const before = row_values<In>(1000, count()), weights = row_values<In>(1001, length_);
    put(std::span<In const>(before), residual_.data() + skip_);
    put(std::span<In const>(weights), weights_.data() + skip_);
    std::span<In> const out(same_out_.data() + skip_, count());
    all_reduce(ranks_, std::span<In const>(in_.data() + skip_, count()), out,
               by_rows(sum{}, length_,
                       with_residual(with_columns(rms_norm{1e-5f}, weights_.data() + skip_), residual_.data() + skip_)),
               how_);
    auto const after = with_sums(before);
    expect_residual(got(residual_.data() + skip_, count()), after);
    compare(
        got(out.data(), count()), {},
        [&](std::size_t row) { return rms_norm_of(row_of(after, row, length_), row_of(weights, 0, length_), 1e-5); },
        itself, "rms_norm");
  }

  void norm_with_row_scales() {
    std::span<float8_e4m3> const out(narrow_out_.data(), count());
    all_reduce(ranks_, std::span<In const>(in_.data() + skip_, count()), out,
               by_rows(sum{}, length_, with_row_scales(rms_norm{1e-5f}, scales_.data())), how_);
    auto const scales = got(scales_.data(), rows_);
    auto const reference = [&](std::size_t row) {
      return rms_norm_of(row_of(sums_, row, length_), doubles(length_, 1), 1e-5);
    };
    for (std::size_t row = 0; row < rows_; ++row) {
      double largest = 0;
      for (double const x : reference(row)) largest = std::max(largest, std::abs(x));
      double const expected = std::max(largest / 448, 1.0 / (448 * 512));
      expect(std::abs(double{scales[row]} - expected) <= roundings_of_row(length_) * expected,
             detail::join({what_, "the scale of row ", row, " is wrong"}));
    }
    compare(got(out.data(), count()), scales, reference, itself, "rms_norm with a scale for each row");
  }

  void norm_with_one_scale() {
    std::vector<float> const scale{0.0123f};
    put(std::span<float const>(scale), scales_.data());
    std::span<float8_e5m2> const out(reinterpret_cast<float8_e5m2*>(narrow_out_.data()), count());
    all_reduce(ranks_, std::span<In const>(in_.data() + skip_, count()), out,
               by_rows(sum{}, length_, with_scale(rms_norm{1e-5f}, from_memory<float>(scales_.data()))), how_);
    compare(
        got<float8_e5m2>(out.data(), count()), scale,
        [&](std::size_t row) { return rms_norm_of(row_of(sums_, row, length_), doubles(length_, 1), 1e-5); }, itself,
        "rms_norm with one scale");
  }

  void normalise_layers() {
    auto const before = row_values<float>(1002, count()), weights = row_values<float>(1003, length_),
               biases = row_values<float>(1004, length_);
    put(std::span<float const>(before), float_residual_.data());
    put(std::span<float const>(weights), float_weights_.data());
    put(std::span<float const>(biases), biases_.data());
    std::span<float> const out(float_out_.data(), count());
    all_reduce(ranks_, std::span<In const>(in_.data() + skip_, count()), out,
               by_rows(sum{}, length_,
                       with_residual(with_columns(layer_norm{1e-5f}, float_weights_.data(), biases_.data()),
                                     float_residual_.data())),
               how_);
    auto const after = with_sums(before);
    expect_residual(got(float_residual_.data(), count()), after);
    compare(
        got(out.data(), count()), {},
        [&](std::size_t row) {
          return layer_norm_of(row_of(after, row, length_), row_of(weights, 0, length_), row_of(biases, 0, length_),
                               1e-5);
        },
        // The mean is subtracted from numbers of about its size.
        [&](doubles const&, std::size_t) { return 16 * std::sqrt(static_cast<double>(length_)); }, "layer_norm");
  }

  void softmax_in_place() {
    std::span<In> const data(in_.data() + skip_, count());
    all_reduce(ranks_, data, by_rows(sum{}, length_, softmax{}), how_);
    compare(
        got<In>(data.data(), count()), {}, [&](std::size_t row) { return softmax_of(row_of(sums_, row, length_)); },
        [](doubles const& row, std::size_t i) { return 32 * std::abs(row[i]); }, "softmax in place");
  }

  R& ranks_;
  Comm& comm_;
  detail::device_options_of<R> how_;
  std::span<In> in_, same_out_;
  array<In> residual_;
  array<float> float_out_, float_residual_;
  array<float8_e4m3> narrow_out_;
  array<In> weights_;
  array<float> scales_, float_weights_, biases_;
  std::size_t rows_ = 0, length_ = 0, skip_ = 0;
  std::string what_;
  std::vector<In> sums_;
};

}  // namespace tutti::testing
