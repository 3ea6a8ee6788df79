// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An array with gaps between its elements, as bytes: any part of it is gathered into contiguous memory, and scattered from
// there.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>

namespace tutti::detail {

template <std::size_t Bytes>
void copy_runs(std::byte* to, std::ptrdiff_t to_stride, std::byte const* from, std::ptrdiff_t from_stride,
               std::size_t runs) noexcept {
  for (; runs > 0; --runs, to += to_stride, from += from_stride) std::memcpy(to, from, Bytes);
}
// Copies runs of `bytes` each. The usual sizes compile to a load and a store instead of a call.
inline void copy_runs(std::byte* to, std::ptrdiff_t to_stride, std::byte const* from, std::ptrdiff_t from_stride,
                      std::size_t runs, std::size_t bytes) noexcept {
  switch (bytes) {
    case 1: return copy_runs<1>(to, to_stride, from, from_stride, runs);
    case 2: return copy_runs<2>(to, to_stride, from, from_stride, runs);
    case 4: return copy_runs<4>(to, to_stride, from, from_stride, runs);
    case 8: return copy_runs<8>(to, to_stride, from, from_stride, runs);
    case 16: return copy_runs<16>(to, to_stride, from, from_stride, runs);
    default:
      for (; runs > 0; --runs, to += to_stride, from += from_stride) std::memcpy(to, from, bytes);
  }
}

// Runs of bytes at places that follow from indices, each with a count and a stride. The last index varies fastest. An offset
// counts the bytes of the runs alone, as if they were contiguous.
class gapped_array {
 public:
  static constexpr std::size_t max_indices = 8;

  gapped_array() = default;
  gapped_array(std::byte* data, std::size_t run_bytes) : data_(data), run_(run_bytes), bytes_(run_bytes) {}

  // Adds an index that varies faster than those before it, with a stride in bytes.
  void add(std::size_t count, std::ptrdiff_t stride) {
    indices_[used_++] = {count, stride};
    bytes_ *= count;
  }

  std::byte const* data() const noexcept { return data_; }
  bool has_gaps() const noexcept { return used_ > 0; }
  std::size_t bytes() const noexcept { return bytes_; }

  // Copies `bytes` from offset `begin` on.
  void gather(std::size_t begin, std::size_t bytes, std::byte* to) const noexcept {
    for_each_row(begin, bytes, [&](std::byte* row, std::size_t length, std::size_t runs, std::ptrdiff_t stride) {
      copy_runs(to, static_cast<std::ptrdiff_t>(length), row, stride, runs, length);
      to += runs * length;
    });
  }
  // The same in the other direction.
  void scatter(std::byte const* from, std::size_t begin, std::size_t bytes) const noexcept {
    for_each_row(begin, bytes, [&](std::byte* row, std::size_t length, std::size_t runs, std::ptrdiff_t stride) {
      copy_runs(row, stride, from, static_cast<std::ptrdiff_t>(length), runs, length);
      from += runs * length;
    });
  }

  // Calls f(data, bytes) for each run, or part of one, of `bytes` from offset `begin` on.
  template <class F>
  void for_each_run(std::size_t begin, std::size_t bytes, F&& f) const {
    for_each_row(begin, bytes, [&](std::byte* run, std::size_t run_bytes, std::size_t runs, std::ptrdiff_t stride) {
      for (std::size_t i = 0; i < runs; ++i) f(run + static_cast<std::ptrdiff_t>(i) * stride, run_bytes);
    });
  }

  // Whether both have the same elements in the same order.
  friend bool are_same(gapped_array const& a, gapped_array const& b) noexcept {
    return a.data_ == b.data_ && a.run_ == b.run_ &&
           std::equal(a.begin(), a.end(), b.begin(), b.end(), [](index const& one, index const& other) {
             return one.count == other.count && one.stride == other.stride;
           });
  }
  // False only if no byte belongs to both. Columns of one matrix are told apart; of some arrays whose gaps do not repeat alike,
  // this is true although they are apart.
  friend bool may_overlap(gapped_array const& a, gapped_array const& b) noexcept {
    range const one = a.bounds(), other = b.bounds();
    if (a.bytes_ == 0 || b.bytes_ == 0 || one.end <= other.begin || other.end <= one.begin) return false;
    // All runs of an array begin at the same place modulo a number that divides all strides.
    std::uintptr_t const period = std::gcd(a.period(), b.period());
    if (period == 0) return true;
    std::uintptr_t const shift = (other.begin % period + period - one.begin % period) % period;
    return shift < a.run_ || shift + b.run_ > period;
  }

 private:
  struct index {
    std::size_t count;
    std::ptrdiff_t stride;  // bytes
  };
  struct range {
    std::uintptr_t begin, end;
  };

  index const* begin() const noexcept { return indices_.data(); }
  index const* end() const noexcept { return indices_.data() + used_; }

  // From the lowest byte to the highest.
  range bounds() const noexcept {
    range out{reinterpret_cast<std::uintptr_t>(data_), reinterpret_cast<std::uintptr_t>(data_) + run_};
    for (index const& i : *this) {
      auto const length = static_cast<std::uintptr_t>(i.stride) * (i.count - 1);  // modulo 2^64 if it is negative
      (i.stride < 0 ? out.begin : out.end) += length;
    }
    return out;
  }
  // The greatest common divisor of the strides; 0 if there are none.
  std::uintptr_t period() const noexcept {
    std::uintptr_t out = 0;
    for (index const& i : *this) out = std::gcd(out, static_cast<std::uintptr_t>(i.stride < 0 ? -i.stride : i.stride));
    return out;
  }

  // Calls f(data, bytes, runs, stride) for runs, or for a part of one, that together make `bytes` from offset `begin` on.
  template <class F>
  void for_each_row(std::size_t begin, std::size_t bytes, F&& f) const {
    if (bytes == 0) return;
    if (used_ == 0) return f(data_ + begin, bytes, std::size_t{1}, std::ptrdiff_t{0});
    std::array<std::size_t, max_indices> at{};
    std::byte* run = data_;
    std::size_t number = begin / run_, within = begin % run_;
    for (std::size_t k = used_; k-- > 0; number /= indices_[k].count) {
      at[k] = number % indices_[k].count;
      run += static_cast<std::ptrdiff_t>(at[k]) * indices_[k].stride;
    }
    std::size_t const last = used_ - 1;
    while (bytes > 0) {
      std::size_t runs = 1, length = std::min(run_ - within, bytes);
      if (length == run_) runs = std::min(indices_[last].count - at[last], bytes / run_);
      f(run + within, length, runs, indices_[last].stride);
      bytes -= runs * length;
      within = 0;
      at[last] += runs;
      run += static_cast<std::ptrdiff_t>(runs) * indices_[last].stride;
      for (std::size_t k = last; k > 0 && at[k] == indices_[k].count; --k) {
        run += indices_[k - 1].stride - static_cast<std::ptrdiff_t>(at[k]) * indices_[k].stride;
        at[k] = 0;
        ++at[k - 1];
      }
    }
  }

  std::byte* data_ = nullptr;
  std::size_t run_ = 0;
  std::size_t bytes_ = 0;  // of all runs
  std::size_t used_ = 0;
  std::array<index, max_indices> indices_{};
};

}  // namespace tutti::detail
